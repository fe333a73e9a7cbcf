//! Errors of remotes.

use super::{AccessError, PortError, QuotaError};
use crate::values::ChunkHash;

/// Errors of what clients of the engine clone and fetch.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Nothing was written to the database yet.
    #[error("{0} is empty: push a branch to it")]
    Empty(String),
    /// The database has more branches and tags than are sent.
    #[error("this database has more than {0} branches and tags, the limit of this server (remotes.max_refs)")]
    TooManyRefs(usize),
    /// The service takes no pushes.
    #[error("this server takes no pushes; write to the database with SQL, imports or pull requests")]
    NoPushes,
    /// The name of a pushed branch or tag is invalid. Holds the rule that it breaks.
    #[error("{0}")]
    InvalidRef(String),
    /// A branch or tag to delete does not exist.
    #[error("there is no {0}")]
    NoSuchRef(String),
    /// The uploaded chunks would be longer than allowed, in bytes.
    #[error(
        "one push can have at most {0} bytes, the limit of this server (remotes.max_push_bytes); push fewer commits at a time"
    )]
    TooLarge(u64),
    /// A chunk does not have the hash that the client names.
    #[error("the content of chunk {0} has another hash")]
    WrongHash(ChunkHash),
    /// A branch or tag changed since the client read them.
    #[error("the branches and tags have changed since they were read; push again")]
    RefsChanged,
    /// Something below the commit was neither uploaded nor is it in the history of the database.
    #[error("the push is not complete; push again")]
    MissingChunks,
    /// The content of the commit is not accepted. Holds the reason.
    #[error("{0}")]
    Rejected(String),
    /// The branch has commits that the pushed one does not descend from, or must not be deleted. Holds the reason.
    #[error("{0}")]
    NotFastForward(String),
    /// Something uses the tag. Holds what.
    #[error("{0}")]
    InUse(String),
    /// Another operation moves the branch, or the queue of operations is full. A later try may succeed.
    #[error("{0}")]
    Busy(String),
    /// A quota of the owner is used up.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// The user lost the right to push, or the database was deleted, before the push ran. Holds the reason.
    #[error("{0}")]
    NotAllowed(String),
    /// An internal error of the server.
    #[error("{0}")]
    Internal(String),
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}
