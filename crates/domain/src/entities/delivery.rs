//! Deliveries: an event on its way to one hook.

use super::EventName;
use crate::values::{AttemptId, DeliveryId, EventId, HookId, Timestamp};

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// An attempt is due, or running.
    Pending {
        /// When it may begin.
        next_attempt_at: Timestamp,
    },
    /// The receiver took it.
    Delivered {
        /// When.
        finished_at: Timestamp,
    },
    /// No attempt is left, or the hook became inactive.
    Failed {
        /// When.
        finished_at: Timestamp,
    },
}

/// An event on its way to one hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its id; sorts by event within a hook.
    pub id: DeliveryId,
    /// The hook.
    pub hook_id: HookId,
    /// The event; it holds the body.
    pub event_id: EventId,
    /// What the event is called.
    pub event: EventName,
    /// Where it stands.
    pub status: DeliveryStatus,
    /// When it was queued.
    pub created_at: Timestamp,
    /// Attempts over all runs.
    pub attempt_count: u32,
    /// Attempts since it was queued or queued again.
    pub run_attempts: u32,
}

impl Delivery {
    /// Whether an attempt is due or running.
    pub const fn is_pending(&self) -> bool {
        matches!(self.status, DeliveryStatus::Pending { .. })
    }

    /// When it was delivered or given up.
    pub const fn finished_at(&self) -> Option<Timestamp> {
        match self.status {
            DeliveryStatus::Pending { .. } => None,
            DeliveryStatus::Delivered { finished_at } | DeliveryStatus::Failed { finished_at } => Some(finished_at),
        }
    }

    /// Queues one more run of attempts under the same id.
    pub fn queue_again(&mut self, now: Timestamp) {
        self.status = DeliveryStatus::Pending { next_attempt_at: now };
        self.run_attempts = 0;
    }
}

/// Why there was no answer that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptError {
    /// Not answered in time.
    Timeout,
    /// The connection was refused.
    Refused,
    /// The name does not resolve.
    Dns,
    /// No trusted TLS connection.
    Tls,
    /// Every address of the name is one that hooks may not reach.
    BlockedAddress,
    /// The receiver sends elsewhere, where nobody follows.
    Redirect,
    /// The connection broke, or what came is not HTTP.
    Connection,
}

/// One request of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its id.
    pub id: AttemptId,
    /// When it began.
    pub started_at: Timestamp,
    /// Milliseconds it took.
    pub duration_ms: u64,
    /// Status of the answer.
    pub response_status: Option<u16>,
    /// Headers of the answer in lower case, as far as they are kept.
    pub response_headers: Option<Vec<(String, String)>>,
    /// Body of the answer, as far as it is kept.
    pub response_body: Option<String>,
    /// Why it failed, unless the status says so.
    pub error: Option<AttemptError>,
}

/// What an attempt sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Where.
    pub url: String,
    /// Headers in the order they were sent; none before the first attempt.
    pub headers: Vec<(String, String)>,
}

/// All that is known of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryDetails {
    /// The delivery.
    pub delivery: Delivery,
    /// What the last attempt sent; before the first, where it will go.
    pub request: Request,
    /// What is sent.
    pub body: String,
    /// The latest attempts, oldest first.
    pub attempts: Vec<Attempt>,
}
