//! Errors of applications and of what users grant to them.

use super::PortError;
use crate::values::{AccountId, GrantId, Invalid};

/// Errors of applications.
#[derive(Debug, thiserror::Error)]
pub enum ApplicationError {
    /// The name is not valid.
    #[error(transparent)]
    Name(Invalid),
    /// A redirect URI is not valid.
    #[error(transparent)]
    RedirectUri(Invalid),
    /// The application has no redirect URI, or too many. Holds the maximum number.
    #[error("an application has 1 to {0} redirect URIs, one on each line")]
    RedirectUriCount(usize),
    /// The user has reached the limit of applications.
    #[error("you have {0} applications, which is the limit; delete one you no longer need")]
    TooMany(u64),
    /// The account of the owner was deleted or renamed.
    #[error("your account is gone, or has another name; sign in again")]
    NoSuchOwner,
    /// The application does not exist, or belongs to another user.
    #[error("no such application")]
    NoSuchApplication,
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of what users grant to applications.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    /// The application is not registered, or its owner is suspended.
    #[error("no application with this client id is registered here")]
    UnknownApplication,
    /// The application may not receive answers at this URI.
    #[error("the application is not registered with this redirect URI")]
    UnknownRedirectUri,
    /// The code, device code or refresh token is unknown, expired, revoked or used up, belongs to another application, or does not go
    /// with what was sent beside it. Or its user is suspended.
    #[error("the code or token is unknown, expired, revoked or used, or was issued for another request")]
    Invalid,
    /// The code, or a refresh token that was replaced before, was sent again, so two clients have it. Its grant has ended.
    #[error("the code or token was used before; what it had given has ended")]
    Replayed {
        /// The grant.
        grant: GrantId,
        /// Its user.
        user: AccountId,
    },
    /// The session in which the user decides has ended.
    #[error("your session has ended; sign in and start again")]
    SessionEnded,
    /// A refresh asks for more than was granted.
    #[error("the scope is wider than the one that the user granted")]
    WiderScope,
    /// The user has not decided about the device yet.
    #[error("the user has not decided yet")]
    Pending,
    /// The device polls too often. Holds the seconds that it has to wait between two polls from now on.
    #[error("wait {0} seconds between two polls")]
    SlowDown(i64),
    /// The user refused the device.
    #[error("the user refused")]
    Denied,
    /// The device waited too long for its user.
    #[error("the device code has expired; begin again")]
    Expired,
    /// Too many devices wait for their users.
    #[error("too many devices wait for their users now; try again in a few minutes")]
    TooManyDevices,
    /// The grant does not exist, or belongs to another user.
    #[error("no such grant")]
    NoSuchGrant,
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}
