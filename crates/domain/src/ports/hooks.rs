//! The way out to hooks: what they are told, how their secrets are kept, and the requests themselves.

use super::CancellationToken;
use crate::entities::{Attempt, AttemptError, DatabaseLocator, EventKind, EventName, HookSecret, Sealed};
use crate::values::{AccountId, AttemptId, DeliveryId, HookId, Timestamp};

/// Renders what hooks are told.
pub trait Payloads: Send + Sync {
    /// The body for an event of this database, as it is called now.
    fn render(&self, database: &DatabaseLocator, kind: &EventKind) -> String;
}

/// Keeps secrets that have to be read again.
pub trait Vault: Send + Sync {
    /// Seals the secret of a hook. `nonce` is fresh randomness.
    fn seal(&self, hook: HookId, secret: &HookSecret, nonce: [u8; 24]) -> Sealed;

    /// Opens what was sealed for this hook; `None` when the key is another one or the bytes were changed.
    fn open(&self, hook: HookId, sealed: &Sealed) -> Option<HookSecret>;
}

/// An address that no hook may have; the texts are for the person who sent it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It breaks a rule of its form, or is not encrypted.
    #[error("{0}")]
    Invalid(String),
    /// It names a network that hooks may not reach.
    #[error("{0}")]
    Refused(String),
    /// The caller has as many names looked up as one may.
    #[error("{0} of your addresses are being looked up; wait until one of them is registered or refused")]
    TooManyLookups(usize),
    /// No further name can be looked up.
    #[error("the server cannot look up the name of this address just now; try again")]
    Busy,
}

/// One request to make.
#[derive(Debug, Clone)]
pub struct WebhookRequest {
    /// Where.
    pub url: String,
    /// The delivery it belongs to.
    pub delivery: DeliveryId,
    /// This attempt.
    pub attempt: AttemptId,
    /// When it begins.
    pub at: Timestamp,
    /// What the event is called.
    pub event: EventName,
    /// What to send, byte by byte.
    pub body: String,
    /// What to sign with, the present secret first.
    pub secrets: Vec<HookSecret>,
    /// Cuts the attempt short, as if it had not been made.
    pub canceled: CancellationToken,
}

/// When a receiver wants to be asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// After so many seconds.
    Seconds(u64),
    /// At that time.
    At(Timestamp),
}

/// What a receiver answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Status.
    pub status: u16,
    /// Headers, as far as they are kept.
    pub headers: Vec<(String, String)>,
    /// Body, as far as it is kept.
    pub body: String,
    /// When to ask again.
    pub retry_after: Option<RetryAfter>,
}

/// How an attempt went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Headers of the request.
    pub headers: Vec<(String, String)>,
    /// The answer, if one came.
    pub reply: Option<Reply>,
    /// Why it failed, unless the status says so.
    pub error: Option<AttemptError>,
}

impl Sent {
    /// Whether the receiver took it.
    pub fn delivered(&self) -> bool {
        self.error.is_none() && self.reply.as_ref().is_some_and(|reply| (200..300).contains(&reply.status))
    }

    /// What is kept of it.
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

/// Takes whether the addresses of a name permit a hook.
pub type LookedUp = Box<dyn FnOnce(Result<(), AddressError>) + Send>;

/// Makes requests to hooks.
pub trait Sender: Send + Sync {
    /// Checks an address at registration and returns its normalized form. Looks up no name.
    ///
    /// # Errors
    /// [`AddressError`].
    fn check(&self, url: &str) -> Result<String, AddressError>;

    /// Looks up the name in an address that was checked, where its addresses decide whether a hook may have it, and calls `done`: at once, or
    /// later on another thread. The time is bounded, and so is the number of names looked up for one caller and for all.
    fn look_up(&self, caller: AccountId, url: &str, done: LookedUp);

    /// Makes one attempt and waits for its end, which is bounded in time. `None` when it was cut short by [`Sender::abort`] or
    /// [`WebhookRequest::canceled`].
    fn send(&self, parcel: &WebhookRequest) -> Option<Sent>;

    /// Cuts all attempts short, those under way and those that are asked for later.
    fn abort(&self);
}
