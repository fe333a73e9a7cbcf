//! Deliveries of events to hooks.

use super::EventName;
use crate::values::{AttemptId, DeliveryId, EventId, HookId, Timestamp};

/// The status of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// An attempt is due or in progress.
    Pending {
        /// When the next attempt may begin.
        next_attempt_at: Timestamp,
    },
    /// The receiver accepted the delivery.
    Delivered {
        /// When the delivery finished.
        finished_at: Timestamp,
    },
    /// No attempts remain, or the hook became inactive.
    Failed {
        /// When the delivery finished.
        finished_at: Timestamp,
    },
}

/// The delivery of an event to one hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Id of the delivery. Sorts by event within a hook.
    pub id: DeliveryId,
    /// The hook.
    pub hook_id: HookId,
    /// The event, which holds the body.
    pub event_id: EventId,
    /// Name of the event.
    pub event: EventName,
    /// Status of the delivery.
    pub status: DeliveryStatus,
    /// When the delivery was queued.
    pub created_at: Timestamp,
    /// Number of attempts in total.
    pub attempt_count: u32,
    /// Number of attempts since the delivery was last queued.
    pub run_attempts: u32,
}

impl Delivery {
    /// Returns `true` if an attempt is due or in progress.
    pub const fn is_pending(&self) -> bool {
        matches!(self.status, DeliveryStatus::Pending { .. })
    }

    /// Returns when the delivery succeeded or failed. `None` while it is pending.
    pub const fn finished_at(&self) -> Option<Timestamp> {
        match self.status {
            DeliveryStatus::Pending { .. } => None,
            DeliveryStatus::Delivered { finished_at } | DeliveryStatus::Failed { finished_at } => Some(finished_at),
        }
    }

    /// Queues another run of attempts under the same id.
    pub fn queue_again(&mut self, now: Timestamp) {
        self.status = DeliveryStatus::Pending { next_attempt_at: now };
        self.run_attempts = 0;
    }
}

/// Why an attempt failed without a usable response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptError {
    /// The time limit was exceeded.
    Timeout,
    /// The receiver refused the connection.
    Refused,
    /// The host name could not be resolved.
    Dns,
    /// No trusted TLS connection could be established.
    Tls,
    /// The egress policy denies every address of the host.
    BlockedAddress,
    /// The receiver redirected the request. Redirects are not followed.
    Redirect,
    /// The connection broke, or the response is not HTTP.
    Connection,
}

/// An attempt of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Id of the attempt.
    pub id: AttemptId,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// Status of the response.
    pub response_status: Option<u16>,
    /// Headers of the response with lower-case names, as far as they are retained.
    pub response_headers: Option<Vec<(String, String)>>,
    /// Body of the response, as far as it is retained.
    pub response_body: Option<String>,
    /// The error, unless the status of the response says enough.
    pub error: Option<AttemptError>,
}

/// The request of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// URL of the receiver.
    pub url: String,
    /// Headers in the order they were sent. Empty before the first attempt.
    pub headers: Vec<(String, String)>,
}

/// A delivery with its request and attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryDetails {
    /// The delivery.
    pub delivery: Delivery,
    /// The request of the last attempt. Before the first attempt, the URL of the hook without headers.
    pub request: Request,
    /// Body of the request.
    pub body: String,
    /// The retained attempts, oldest first.
    pub attempts: Vec<Attempt>,
}
