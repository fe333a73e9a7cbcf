//! The ports of webhooks: payloads, storage of secrets, and HTTP requests.

use branchyard_auth::SEED_BYTES;

use super::CancellationToken;
use crate::entities::{Attempt, AttemptError, DatabaseLocator, EventKind, EventName, HookSecret, Sealed};
use crate::errors::PortError;
use crate::values::{AccountId, AttemptId, DatabaseId, DeliveryId, HookId, Timestamp, TraceContext};

/// Renders the payloads of webhooks.
pub trait Payloads: Send + Sync {
    /// Renders the request body for an event of this database, with the names it has now.
    fn render(&self, database: &DatabaseLocator, kind: &EventKind) -> String;
}

/// Encrypts secrets that the server has to read again.
pub trait Vault: Send + Sync {
    /// Encrypts the secret of a hook, within the transaction that saves it, which holds
    /// [`WriteKey::Server`](super::WriteKey::Server): no key that seals is taken away meanwhile. `nonce` has to be fresh randomness.
    ///
    /// # Errors
    /// [`PortError`] if the vault cannot find out which key seals.
    fn seal(&self, hook: HookId, secret: &HookSecret, nonce: [u8; 24]) -> Result<Sealed, PortError>;

    /// Decrypts a secret that was sealed for this hook. Returns `None` if its key is absent or the bytes were
    /// changed.
    fn open(&self, hook: HookId, sealed: &Sealed) -> Option<HookSecret>;

    /// Encrypts the seed of the key of a mirror, as [`Vault::seal`] does.
    ///
    /// # Errors
    /// As [`Vault::seal`].
    fn seal_seed(&self, mirror: DatabaseId, seed: &[u8; SEED_BYTES], nonce: [u8; 24]) -> Result<Sealed, PortError>;

    /// Decrypts a seed that was sealed for this mirror. Returns `None` if its key is absent or the bytes were changed.
    fn open_seed(&self, mirror: DatabaseId, sealed: &Sealed) -> Option<[u8; SEED_BYTES]>;

    /// Returns the id of the key under which [`Vault::seal`] and [`Vault::seal_seed`] encrypt, or did last if the vault cannot find out.
    fn key_id(&self) -> String;
}

/// A URL that hooks may not have. The texts are for the user who entered it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The URL is malformed, or is not encrypted where encryption is required.
    #[error("{0}")]
    Invalid(String),
    /// The URL refers to a network that the egress policy denies.
    #[error("{0}")]
    Refused(String),
    /// The caller has reached the limit of concurrent name look-ups.
    #[error("{0} of your addresses are being looked up; wait until one of them is registered or refused")]
    TooManyLookups(usize),
    /// The server has reached its limit of concurrent name look-ups.
    #[error("the server cannot resolve this host name at the moment; try again")]
    Busy,
}

/// One webhook request.
#[derive(Debug, Clone)]
pub struct WebhookRequest {
    /// The URL of the receiver.
    pub url: String,
    /// The delivery that the request belongs to.
    pub delivery: DeliveryId,
    /// The attempt that the request makes.
    pub attempt: AttemptId,
    /// When the attempt begins, by the clock of the machine; part of the signature. Receivers compare it with their own
    /// clocks.
    pub at: Timestamp,
    /// Name of the event.
    pub event: EventName,
    /// The exact body to send.
    pub body: String,
    /// The signing secrets, the current one first.
    pub secrets: Vec<HookSecret>,
    /// The trace that the request belongs to, for the header `traceparent`.
    pub trace: Option<TraceContext>,
    /// Aborts the request, as if the attempt had not been made.
    pub canceled: CancellationToken,
}

/// The `Retry-After` of a receiver (RFC 9110, section 10.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// After this many seconds.
    Seconds(u64),
    /// At this time.
    At(Timestamp),
}

/// The response of a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Headers, as far as they are retained.
    pub headers: Vec<(String, String)>,
    /// Body, as far as it is retained.
    pub body: String,
    /// When the receiver wants the next attempt.
    pub retry_after: Option<RetryAfter>,
}

/// The outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Headers of the request.
    pub headers: Vec<(String, String)>,
    /// The response, if there was one.
    pub reply: Option<Reply>,
    /// The error, unless the status of the response says enough.
    pub error: Option<AttemptError>,
}

impl Sent {
    /// Returns `true` if the receiver accepted the delivery (status 2xx).
    pub fn delivered(&self) -> bool {
        self.error.is_none() && self.reply.as_ref().is_some_and(|reply| (200..300).contains(&reply.status))
    }

    /// Returns the log entry of the attempt.
    pub(crate) fn attempt(&self, id: AttemptId, started_at: Timestamp, duration_ms: u64) -> Attempt {
        Attempt {
            id,
            started_at,
            duration_ms,
            response_status: self.reply.as_ref().map(|reply| reply.status),
            response_headers: self.reply.as_ref().map(|reply| reply.headers.clone()),
            response_body: self.reply.as_ref().map(|reply| reply.body.clone()),
            error: self.error,
        }
    }
}

/// A callback for the result of [`Sender::look_up`].
pub type LookedUp = Box<dyn FnOnce(Result<(), AddressError>) + Send>;

/// Sends webhook requests.
pub trait Sender: Send + Sync {
    /// Validates the URL of a hook and returns its normalized form. Does not look up the name.
    ///
    /// # Errors
    /// [`AddressError`].
    fn check(&self, url: &str) -> Result<String, AddressError>;

    /// Looks up the host name of a checked URL if the egress policy depends on its addresses, and passes the result
    /// to `done`, either before returning or later on another thread. The duration is bounded, and so is the number
    /// of concurrent look-ups, per caller and in total.
    fn look_up(&self, caller: AccountId, url: &str, done: LookedUp);

    /// Makes one attempt and blocks until it ends, for a bounded time. Returns `None` if [`Sender::abort`] or
    /// [`WebhookRequest::canceled`] aborted the attempt.
    fn send(&self, parcel: &WebhookRequest) -> Option<Sent>;

    /// Aborts all present and future attempts.
    fn abort(&self);
}
