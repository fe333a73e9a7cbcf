//! Hooks: addresses that want to hear what happens to a database.

use std::collections::BTreeSet;
use std::fmt;

use super::EventName;
use crate::values::{DatabaseId, HookId, Timestamp};

/// What a hook can subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookEvent {
    /// Pushes.
    Push,
    /// Pulls that were opened, closed, merged, reopened.
    PullRequest,
    /// Branches that were created or deleted.
    Branch,
}

impl HookEvent {
    /// The subscription that an event belongs to; a ping belongs to none.
    pub const fn of(name: EventName) -> Option<Self> {
        match name {
            EventName::Push => Some(Self::Push),
            EventName::PullRequest => Some(Self::PullRequest),
            EventName::Branch => Some(Self::Branch),
            EventName::Ping => None,
        }
    }
}

/// Why the server switched a hook off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisabledReason {
    /// The receiver answered that it is gone for good.
    Gone,
    /// Nothing but failures for days.
    Failing,
}

/// A secret as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Which key sealed it.
    pub key_id: String,
    /// What only that key opens.
    pub bytes: Vec<u8>,
}

/// The secret that deliveries are signed with, as its holder writes it: `whsec_` and base64.
#[derive(Clone, PartialEq, Eq)]
pub struct HookSecret(String);

impl HookSecret {
    /// Wraps the text of a secret.
    pub const fn from_text(text: String) -> Self {
        Self(text)
    }

    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for HookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookSecret([redacted])")
    }
}

/// The secret before the present one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviousSecret {
    /// The secret.
    pub secret: Sealed,
    /// Until when deliveries are signed with it too.
    pub until: Timestamp,
}

/// An address that is told of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Its id; sorts by creation.
    pub id: HookId,
    /// The database it listens to.
    pub database_id: DatabaseId,
    /// Where to send, in its normalized form. It may hold a secret of the receiver: only its host goes into logs.
    pub url: String,
    /// What it wants to hear; never empty.
    pub events: BTreeSet<HookEvent>,
    /// Whether events are queued for it.
    pub active: bool,
    /// Why the server switched it off.
    pub disabled_reason: Option<DisabledReason>,
    /// What deliveries are signed with.
    pub secret: Sealed,
    /// What they were signed with before.
    pub previous_secret: Option<PreviousSecret>,
    /// When the first attempt since the last success failed.
    pub failing_since: Option<Timestamp>,
    /// Whether a delivery has used up its attempts since then.
    pub exhausted: bool,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When somebody, or the server, last changed it.
    pub updated_at: Timestamp,
}

impl Hook {
    /// Switches it on or off, as somebody asked. On again, what was wrong is forgotten.
    pub fn set_active(&mut self, active: bool) {
        self.active = active;
        if active {
            self.disabled_reason = None;
            self.succeeded();
        }
    }

    /// Switches it off; a hook that is off keeps its reason.
    pub fn disable(&mut self, reason: DisabledReason, now: Timestamp) {
        if self.active {
            self.active = false;
            self.disabled_reason = Some(reason);
            self.updated_at = now;
        }
    }

    /// Notes that something was delivered.
    pub fn succeeded(&mut self) {
        self.failing_since = None;
        self.exhausted = false;
    }

    /// Notes a failed attempt, and whether it was the last of its delivery. Gives whether failures have gone on for `patience_seconds`.
    pub fn failed(&mut self, now: Timestamp, last: bool, patience_seconds: i64) -> bool {
        let since = *self.failing_since.get_or_insert(now);
        self.exhausted |= last;
        self.exhausted && since.plus_seconds(patience_seconds) <= now
    }
}
