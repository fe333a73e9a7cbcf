//! The activity log of a database.

use super::PullAction;
use crate::values::{AccountId, ActivityId, CommitHash, DatabaseId, OwnerName, PullNumber, RefName, Timestamp};

/// The kind of an activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActivityKind {
    /// A branch moved to a new head.
    Pushed {
        /// The branch.
        branch: RefName,
        /// The new head at that time.
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
    /// The state of a pull request changed.
    Pull {
        /// Number of the pull request.
        number: PullNumber,
        /// The state change.
        action: PullAction,
    },
    /// A release was published.
    Released {
        /// The tag of the release.
        tag: RefName,
    },
}

/// An entry of the activity log, written in the transaction of the change it reports. Activities of pull requests are
/// retained as long as the pull request, others as long as operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// Id. Sorts by creation time.
    pub id: ActivityId,
    /// The database.
    pub database_id: DatabaseId,
    /// When the activity happened.
    pub at: Timestamp,
    /// The user who made the change.
    pub by: AccountId,
    /// Name of that user.
    pub by_name: OwnerName,
    /// Kind of the activity.
    pub kind: ActivityKind,
}
