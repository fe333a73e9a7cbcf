//! Events: what happened to a database, for those who want to hear of it.

use crate::values::{CommitHash, DatabaseId, EventId, HookId, OwnerName, PullNumber, RefName, Timestamp};

use super::DatabaseLocator;

/// What was done to a pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullAction {
    /// It was opened.
    Opened,
    /// It was closed without merging.
    Closed,
    /// It was opened again.
    Reopened,
    /// It was merged.
    Merged,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// A branch moved to a new head.
    Push {
        /// The branch.
        branch: RefName,
        /// Where it is now.
        head: CommitHash,
        /// Where it was.
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
    /// A pull changed its state.
    Pull {
        /// Which.
        number: PullNumber,
        /// How.
        action: PullAction,
        /// The database it comes from.
        from: DatabaseLocator,
        /// The branch it comes from.
        from_branch: RefName,
        /// The branch it goes to.
        to_branch: RefName,
        /// Who opened the pull.
        author: OwnerName,
        /// Who did this.
        sender: OwnerName,
    },
    /// Nothing happened: somebody wants to see whether a hook works.
    Ping {
        /// The hook it is for.
        hook: HookId,
    },
}

/// What an event is called, for those who hear of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventName {
    /// A branch moved.
    Push,
    /// A pull changed its state.
    PullRequest,
    /// A branch was created or deleted.
    Branch,
    /// A trial.
    Ping,
}

impl EventKind {
    /// What it is called.
    pub const fn name(&self) -> EventName {
        match self {
            Self::Push { .. } => EventName::Push,
            Self::BranchCreated { .. } | Self::BranchDeleted { .. } => EventName::Branch,
            Self::Pull { .. } => EventName::PullRequest,
            Self::Ping { .. } => EventName::Ping,
        }
    }
}

/// An event in the outbox, written with the change it reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its id; sorts by creation.
    pub id: EventId,
    /// The database it happened to.
    pub database_id: DatabaseId,
    /// When.
    pub at: Timestamp,
    /// What.
    pub kind: EventKind,
    /// What hooks are told, byte by byte; rendered once, so that names are those of the time of the event.
    pub body: String,
}
