//! What happened in a database, for people to look back on.

use super::PullAction;
use crate::values::{AccountId, ActivityId, CommitHash, DatabaseId, OwnerName, PullNumber, RefName, Timestamp};

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActivityKind {
    /// A branch moved to a new head.
    Pushed {
        /// The branch.
        branch: RefName,
        /// Where it was then.
        head: CommitHash,
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
    },
    /// A release was published.
    Released {
        /// Its tag.
        tag: RefName,
    },
}

/// Something that happened in a database. It is written with the change it reports. What happened to pulls is kept as long as they are,
/// the rest as long as operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// Its id; sorts by creation.
    pub id: ActivityId,
    /// The database it happened in.
    pub database_id: DatabaseId,
    /// When.
    pub at: Timestamp,
    /// Who did it.
    pub by: AccountId,
    /// The name of who did it.
    pub by_name: OwnerName,
    /// What.
    pub kind: ActivityKind,
}
