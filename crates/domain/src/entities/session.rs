//! Sessions of people who are signed in, and invitations to become one of them.

use branchyard_auth::HashedToken;

use super::LastUse;
use crate::values::{AccountId, InvitationId, SessionId, Timestamp};

/// A browser in which somebody is signed in. Of its secret only the hash is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its id; not secret.
    pub id: SessionId,
    /// Who is signed in.
    pub user_id: AccountId,
    /// SHA-256 of the secret in the cookie.
    pub hash: HashedToken,
    /// When they signed in.
    pub created_at: Timestamp,
    /// When it ends if it is not used before.
    pub expires_at: Timestamp,
    /// When and from where it was last used; at first, where they signed in.
    pub last_use: LastUse,
}

impl Session {
    /// Whether it has ended at `now`.
    pub fn expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at
    }
}

/// A link with which one person may sign up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    /// Its id; not secret.
    pub id: InvitationId,
    /// SHA-256 of the secret in the link.
    pub hash: HashedToken,
    /// Whether whoever follows it administers the server.
    pub is_admin: bool,
    /// Who invites; the server itself when it has no user yet.
    pub created_by: Option<AccountId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working.
    pub expires_at: Timestamp,
}

impl Invitation {
    /// Whether it no longer works at `now`.
    pub fn expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at
    }
}
