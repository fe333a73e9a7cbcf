//! Errors of pull requests.

use super::PortError;
use super::databases::AccessError;
use super::operations::QuotaError;
use crate::values::{OperationId, PullNumber, RefName};

/// An invalid state transition of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PullStateError {
    /// The pull request is merged, which is a final state.
    #[error("the pull request is merged; its state is final")]
    Merged,
    /// The pull request is closed. Only open pull requests can be merged.
    #[error("the pull request is closed; reopen it first")]
    Closed,
}

/// Errors of pull requests.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The pull request does not exist.
    #[error("no such pull")]
    NoSuchPull,
    /// The source database does not exist or is hidden from the caller.
    #[error("no such repository")]
    NoSuchSource,
    /// The target branch belongs to a database other than the one the pull request is opened in.
    #[error("to_branch must be a branch of {0}")]
    OtherTarget(String),
    /// Source and base belong to different fork networks.
    #[error("{0} is not in the same fork network")]
    OtherNetwork(String),
    /// Source and target are the same branch.
    #[error("the two branches are the same")]
    SameBranch,
    /// A branch does not exist.
    #[error("no branch '{branch}' in {database}")]
    NoSuchBranch {
        /// The database, as `owner/name`.
        database: String,
        /// Name of the branch.
        branch: String,
        /// Whether the missing branch is the source.
        is_source: bool,
    },
    /// An open pull request has the same source and target.
    #[error("pull request {0} is already open for these branches")]
    Duplicate(PullNumber),
    /// The state of the pull request does not allow the transition.
    #[error(transparent)]
    State(#[from] PullStateError),
    /// An operation that merges the pull request is queued or running.
    #[error("operation {0} is merging this pull request")]
    Merging(OperationId),
    /// A branch no longer exists.
    #[error("branch '{0}' no longer exists")]
    BranchGone(RefName),
    /// The source database no longer exists, or the branches have no common history.
    #[error("{0}")]
    BranchMissing(String),
    /// Only the author or a writer of the database may change the pull request.
    #[error("only the author or a user with write access can change this pull request")]
    NotYours,
    /// The source is another database that is not public, and the caller has no write role on it.
    #[error(
        "the source database is not public: this pull request requires the write role on it, because every reader of \
         the base can see the branch"
    )]
    SourceDenied,
    /// The source is another database that is not public, the base is public, and the caller did not consent to
    /// publishing.
    #[error(
        "the source database is not public, but the base is: this pull request makes the branch visible to everyone; \
         send publish: true to agree"
    )]
    NeedsPublish,
    /// Only an administrator of the source database may withdraw the pull request.
    #[error("withdrawing a pull request requires the admin role on its source database")]
    NotSourceAdmin,
    /// The pull request shows no content.
    #[error(transparent)]
    NotShown(#[from] NotShown),
    /// The commits of the source have not been fetched into the base yet.
    #[error("the commits of the source branch are being fetched; try again in a second")]
    Preparing,
    /// The limit of previews in preparation is reached.
    #[error("too many previews are being prepared; try again in a minute")]
    TooManyPreviews,
    /// Neither side has this table.
    #[error("no table '{0}' in this pull request")]
    NoSuchTable(String),
    /// The pull request changed since the caller read it.
    #[error("the pull request changed since it was read")]
    Changed,
    /// The two sides cannot be merged for a reason other than conflicts.
    #[error("the branches cannot be merged: {0}")]
    CannotMerge(String),
    /// The trial merge exceeded its time limit.
    #[error("the trial merge took too long; try again later")]
    TooSlow,
    /// The queue of operations is full.
    #[error("{0} operations are waiting on this database; try again when some have finished")]
    QueueFull(u64),
    /// A quota of the owner is used up.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Why a pull request shows neither a difference nor conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotShown {
    /// An administrator of the source database withdrew the pull request.
    #[error("the pull request was withdrawn by an administrator of its source database; its changes are hidden")]
    Withdrawn,
    /// The pull request was closed together with its source.
    #[error(
        "the changes of this pull request are hidden, because its source database was deleted or is private; open a \
         new pull request to show the branch"
    )]
    HiddenWithSource,
    /// The pull request was closed by a server version that did not store heads.
    #[error(
        "the pull request was closed before the server stored its heads; open a new pull request to see the changes"
    )]
    NoHeads,
}
