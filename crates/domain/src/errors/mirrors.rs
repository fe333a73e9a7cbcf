//! Errors of mirrors.

use super::{AccessError, OperationError, PortError};
use crate::ports::AddressError;

/// Errors of mirrors.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// The service has no mirrors.
    #[error("this server has no mirrors")]
    Unavailable,
    /// The database is no mirror.
    #[error("this database is no mirror")]
    NoMirror,
    /// The address of the source is not accepted.
    #[error("the address of the source is not accepted: {0}")]
    Address(#[from] AddressError),
    /// The interval is out of range.
    #[error("the interval must be 0, for one sync only, or 60 to 2592000 seconds")]
    Interval,
    /// A sync cannot be queued.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}
