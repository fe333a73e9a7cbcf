//! Browser sessions and invitations to sign up.

use branchyard_auth::HashedToken;

use super::LastUse;
use crate::values::{AccountId, InvitationId, SessionId, Timestamp};

/// A signed-in browser session. Only the hash of its secret is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Id of the session. Not secret.
    pub id: SessionId,
    /// The signed-in user.
    pub user_id: AccountId,
    /// SHA-256 of the secret in the cookie.
    pub hash: HashedToken,
    /// When the user signed in.
    pub created_at: Timestamp,
    /// When the session expires unless it is used before.
    pub expires_at: Timestamp,
    /// When the user last entered the password in this session, initially the sign-in.
    pub confirmed_at: Timestamp,
    /// The last use of the session, initially the sign-in.
    pub last_use: LastUse,
}

impl Session {
    /// Returns `true` if the session has expired at `now`.
    pub fn expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at
    }
}

/// An invitation link, with which one person may sign up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    /// Id of the invitation. Not secret.
    pub id: InvitationId,
    /// SHA-256 of the secret in the link.
    pub hash: HashedToken,
    /// Whether the invited user becomes a server administrator.
    pub is_admin: bool,
    /// The user who created the invitation. `None` for an invitation by the server itself, which has no user yet.
    pub created_by: Option<AccountId>,
    /// When the invitation was created.
    pub created_at: Timestamp,
    /// When the invitation expires.
    pub expires_at: Timestamp,
}

impl Invitation {
    /// Returns `true` if the invitation has expired at `now`.
    pub fn expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at
    }
}
