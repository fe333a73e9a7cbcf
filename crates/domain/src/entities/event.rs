//! Events, which report changes of a database to webhooks.

use crate::values::{CommitHash, DatabaseId, EventId, HookId, OwnerName, PullNumber, RefName, Timestamp, TraceContext};

use super::DatabaseLocator;

/// A state change of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullAction {
    /// The pull request was opened.
    Opened,
    /// The pull request was closed without a merge.
    Closed,
    /// The pull request was reopened.
    Reopened,
    /// The pull request was merged.
    Merged,
}

/// The kind of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// A branch moved to a new head.
    Push {
        /// The branch.
        branch: RefName,
        /// The new head.
        head: CommitHash,
        /// The previous head.
        previous: CommitHash,
    },
    /// A branch was created.
    BranchCreated {
        /// The branch.
        branch: RefName,
    },
    /// A branch was deleted.
    BranchDeleted {
        /// The branch.
        branch: RefName,
    },
    /// The state of a pull request changed.
    Pull {
        /// Number of the pull request.
        number: PullNumber,
        /// The state change.
        action: PullAction,
        /// The source database.
        from: DatabaseLocator,
        /// The source branch.
        from_branch: RefName,
        /// The target branch.
        to_branch: RefName,
        /// Name of the user who opened the pull request.
        author: OwnerName,
        /// Name of the user who made the change.
        sender: OwnerName,
    },
    /// A test of a hook, requested by a user. Reports no change.
    Ping {
        /// The tested hook.
        hook: HookId,
    },
}

/// The event name that receivers see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventName {
    /// A branch moved.
    Push,
    /// The state of a pull request changed.
    PullRequest,
    /// A branch was created or deleted.
    Branch,
    /// A test of a hook.
    Ping,
}

impl EventKind {
    /// Returns the name of the event.
    pub const fn name(&self) -> EventName {
        match self {
            Self::Push { .. } => EventName::Push,
            Self::BranchCreated { .. } | Self::BranchDeleted { .. } => EventName::Branch,
            Self::Pull { .. } => EventName::PullRequest,
            Self::Ping { .. } => EventName::Ping,
        }
    }
}

/// An event in the outbox, written in the transaction of the change it reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Id. Sorts by creation time.
    pub id: EventId,
    /// The database.
    pub database_id: DatabaseId,
    /// When the event happened.
    pub at: Timestamp,
    /// Kind of the event.
    pub kind: EventKind,
    /// The exact webhook body. Rendered once, so that names are those at the time of the event.
    pub body: String,
    /// The trace of the request that caused the event, if it named one.
    pub trace: Option<TraceContext>,
}
