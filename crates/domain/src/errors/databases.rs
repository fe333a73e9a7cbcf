//! Errors of databases, their refs and releases, and of reads.

use super::operations::QuotaError;
use super::{MirrorError, PortError};
use crate::values::{CommitHash, OperationId};

/// Errors of access to a database.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// Authentication is required.
    #[error("this needs a credential")]
    SignInRequired,
    /// The database does not exist, is deleted, or is hidden from the caller. The error does not reveal which.
    #[error("no such repository")]
    NoSuchDatabase,
    /// The database is visible, but the caller's role is too low. Holds the name of the required role.
    #[error("this needs the {0} role on the database")]
    Denied(&'static str),
    /// The database is a mirror, which only its source changes.
    #[error("this database is a mirror: only its source changes it; stop mirroring to write to it")]
    Mirror,
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

impl From<MirrorError> for DatabaseError {
    fn from(error: MirrorError) -> Self {
        match error {
            MirrorError::Port(error) => error.into(),
            other => Self::Mirror(Box::new(other)),
        }
    }
}

/// Errors of databases.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The caller may not create databases for this owner, which may or may not exist.
    #[error("you may not create databases for '{0}'")]
    MayNotCreateFor(String),
    /// The owner has a database of this name.
    #[error("'{0}' already exists")]
    NameTaken(String),
    /// The owner has reached the limit of databases.
    #[error("the owner has reached the limit of {0} databases")]
    TooMany(u64),
    /// A quota of the owner is used up.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// What the database is to follow is not accepted.
    #[error(transparent)]
    Mirror(Box<MirrorError>),
    /// The new default branch does not exist.
    #[error("no branch '{0}'")]
    NoSuchBranch(String),
    /// A fork of a private database cannot become public without an administrator of the parent.
    #[error("this is a fork of a private database: only an administrator of that database can make it public")]
    ParentPrivate,
    /// The database changed since the caller read it.
    #[error("the database changed since it was read")]
    Changed,
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of branches, tags and revisions.
#[derive(Debug, thiserror::Error)]
pub enum RefError {
    /// The name does not resolve to a branch, tag or commit.
    #[error("no branch, tag or commit '{name}' in {database}")]
    NoSuchRef {
        /// The name or revision.
        name: String,
        /// The database, as `owner/name`.
        database: String,
    },
    /// The hashes of several commits begin with the digits.
    #[error("several commits of {database} begin with '{prefix}'; add digits")]
    AmbiguousCommit {
        /// The digits.
        prefix: String,
        /// The database, as `owner/name`.
        database: String,
        /// The commits, at most [`RefError::MOST_CANDIDATES`] of them.
        commits: Vec<CommitHash>,
    },
    /// The branch does not exist.
    #[error("no branch '{0}'")]
    NoSuchBranch(String),
    /// The tag does not exist.
    #[error("no tag '{0}'")]
    NoSuchTag(String),
    /// A branch of this name exists.
    #[error("branch '{0}' already exists")]
    BranchExists(String),
    /// A tag of this name exists.
    #[error("tag '{0}' already exists")]
    TagExists(String),
    /// The default branch cannot be deleted.
    #[error("'{0}' is the default branch; make another branch the default first")]
    DefaultBranch(String),
    /// A branch can only be moved back to an earlier commit of its history.
    #[error("commit {commit} is not an earlier commit of branch '{branch}'")]
    NotBehind {
        /// The commit.
        commit: CommitHash,
        /// Name of the branch.
        branch: String,
    },
    /// An unsettled operation writes to the branch.
    #[error("operation {0} writes to this branch; wait for it to finish")]
    InUse(OperationId),
    /// A release uses the tag.
    #[error("a release uses tag '{0}'; delete the release first")]
    ReleaseUsesTag(String),
    /// The deleted branch is not kept any longer.
    #[error("this branch isn't kept any longer, so it can't be restored")]
    NotKept,
    /// The branch or tag changed since the caller read it.
    #[error("it changed since it was read")]
    Changed,
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

impl RefError {
    /// Number of commits that [`RefError::AmbiguousCommit`] holds at most.
    pub const MOST_CANDIDATES: usize = 10;
}

/// Errors of releases.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// The tag has no release.
    #[error("no release '{0}'")]
    NoSuchRelease(String),
    /// The commit does not exist.
    #[error("no commit '{0}'")]
    NoSuchCommit(String),
    /// The commit cannot be determined.
    #[error(transparent)]
    Commit(RefError),
    /// The tag does not exist.
    #[error("no tag '{0}'; create it first, or together with the release")]
    NoSuchTag(String),
    /// The tag already has a release.
    #[error("tag '{0}' already has a release")]
    Exists(String),
    /// The tag refers to another commit.
    #[error("tag '{0}' points to another commit")]
    TagElsewhere(String),
    /// The release changed since the caller read it.
    #[error("the release changed since it was read")]
    Changed,
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of reads.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The ref does not resolve.
    #[error(transparent)]
    Ref(#[from] RefError),
    /// The requested table does not exist.
    #[error("no table '{0}'")]
    NoSuchTable(String),
    /// The requested column does not exist.
    #[error("no column '{0}'")]
    NoSuchColumn(String),
    /// The time limit was exceeded, in milliseconds.
    #[error("timed out after {0} ms")]
    TimedOut(u64),
    /// The content cannot be read as wanted, for example a view whose query fails.
    #[error("{0}")]
    Content(String),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}
