//! Errors of looking for the commit that a branch had at a time.

use super::{PortError, RefError};

/// Errors of looking for the commit that a branch had at a time.
#[derive(Debug, thiserror::Error)]
pub enum AtTimeError {
    /// Tags and commits do not move.
    #[error(
        "only a branch has a commit of a time, and '{0}' is a tag or a commit; leave out the time, or name a branch"
    )]
    NotABranch(String),
    /// The branch is younger.
    #[error("branch '{0}' had no commit at that time; choose a later one")]
    NotThen(String),
    /// The search took too long.
    #[error(
        "that is too long ago in the history of branch '{0}' to be found; choose a later time, or open the commit by its hash"
    )]
    TooFar(String),
    /// There is no such branch, tag or commit.
    #[error(transparent)]
    Ref(#[from] RefError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}
