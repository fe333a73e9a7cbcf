//! Errors of remotes.

use super::{AccessError, PortError};

/// Errors of what clients of the engine clone and fetch.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Nothing was written to the database yet.
    #[error("{0} is empty: push a branch to it")]
    Empty(String),
    /// The database has more branches and tags than are sent.
    #[error("this database has more than {0} branches and tags, the limit of this server (remotes.max_refs)")]
    TooManyRefs(usize),
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}
