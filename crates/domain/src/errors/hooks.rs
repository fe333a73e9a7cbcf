//! Errors of hooks and deliveries.

use super::PortError;
use super::databases::AccessError;
use crate::ports::AddressError;

/// Errors of hooks and deliveries.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The database has no such hook.
    #[error("no such hook")]
    NoSuchHook,
    /// The hook has no such delivery.
    #[error("no such delivery")]
    NoSuchDelivery,
    /// The URL is not allowed.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The database has reached the limit of hooks.
    #[error("the database has reached the limit of {0} hooks; delete one first")]
    TooMany(u64),
    /// The delivery is already pending.
    #[error("the delivery is still pending; wait until it is delivered or has failed")]
    StillPending,
    /// The hook changed since the caller read it.
    #[error("the hook changed since it was read")]
    Changed,
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}
