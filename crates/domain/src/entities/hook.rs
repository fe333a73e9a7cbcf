//! Webhooks of databases.

use std::collections::BTreeSet;
use std::fmt;

use super::EventName;
use crate::values::{DatabaseId, HookId, Timestamp};

/// An event subscription of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookEvent {
    /// Branches that moved.
    Push,
    /// Pull requests that were opened, closed, merged or reopened.
    PullRequest,
    /// Branches that were created or deleted.
    Branch,
}

impl HookEvent {
    /// Returns the subscription that covers an event. `None` for pings, which need no subscription.
    pub const fn of(name: EventName) -> Option<Self> {
        match name {
            EventName::Push => Some(Self::Push),
            EventName::PullRequest => Some(Self::PullRequest),
            EventName::Branch => Some(Self::Branch),
            EventName::Ping => None,
        }
    }
}

/// Why the server disabled a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisabledReason {
    /// The receiver responded with 410 Gone.
    Gone,
    /// Deliveries failed for days without a success.
    Failing,
}

/// An encrypted secret, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Id of the encryption key.
    pub key_id: String,
    /// Ciphertext.
    pub bytes: Vec<u8>,
}

/// The signing secret of a hook as its holder writes it: `whsec_` and base64.
#[derive(Clone, PartialEq, Eq)]
pub struct HookSecret(String);

impl HookSecret {
    /// Wraps the text of a secret.
    pub const fn from_text(text: String) -> Self {
        Self(text)
    }

    /// Returns the text of the secret.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for HookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookSecret([redacted])")
    }
}

/// The previous secret of a hook after a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviousSecret {
    /// The secret.
    pub secret: Sealed,
    /// Until when deliveries are also signed with this secret.
    pub until: Timestamp,
}

/// A webhook of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Id. Sorts by creation time.
    pub id: HookId,
    /// The database whose events the hook receives.
    pub database_id: DatabaseId,
    /// URL of the receiver in its normalized form. It may contain a secret of the receiver, so logs contain only its
    /// host.
    pub url: String,
    /// Subscribed events. Never empty.
    pub events: BTreeSet<HookEvent>,
    /// Whether events are delivered to the hook.
    pub active: bool,
    /// Why the server disabled the hook.
    pub disabled_reason: Option<DisabledReason>,
    /// The signing secret.
    pub secret: Sealed,
    /// The previous signing secret.
    pub previous_secret: Option<PreviousSecret>,
    /// When the first attempt since the last success failed.
    pub failing_since: Option<Timestamp>,
    /// Whether a delivery has used all of its attempts since then.
    pub exhausted: bool,
    /// When the hook was created.
    pub created_at: Timestamp,
    /// When a user or the server last changed the hook.
    pub updated_at: Timestamp,
}

impl Hook {
    /// Enables or disables the hook for a user. Enabling clears the failure state.
    pub fn set_active(&mut self, active: bool) {
        self.active = active;
        if active {
            self.disabled_reason = None;
            self.succeeded();
        }
    }

    /// Disables the hook. An inactive hook keeps its reason.
    pub fn disable(&mut self, reason: DisabledReason, now: Timestamp) {
        if self.active {
            self.active = false;
            self.disabled_reason = Some(reason);
            self.updated_at = now;
        }
    }

    /// Records a successful delivery, which clears the failure state.
    pub fn succeeded(&mut self) {
        self.failing_since = None;
        self.exhausted = false;
    }

    /// Records a failed attempt. `last` states whether the delivery has no attempts left. Returns `true` if failures
    /// have lasted for `patience_seconds` and a delivery has used all of its attempts.
    pub fn failed(&mut self, now: Timestamp, last: bool, patience_seconds: i64) -> bool {
        let since = *self.failing_since.get_or_insert(now);
        self.exhausted |= last;
        self.exhausted && since.plus_seconds(patience_seconds) <= now
    }
}
