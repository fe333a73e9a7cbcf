//! API tokens, as kept: never the secret, only its hash.

use branchyard_auth::HashedToken;

use crate::values::{AccountId, Timestamp, TokenId};

/// When and from where a token was last used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastUse {
    /// When; at most 30 s behind.
    pub at: Timestamp,
    /// Network address of the client.
    pub address: String,
    /// What the client called itself.
    pub user_agent: String,
}

/// A token of a user.
#[derive(Debug, Clone)]
pub struct Token {
    /// Its id; not secret.
    pub id: TokenId,
    /// Whose it is.
    pub user_id: AccountId,
    /// Its label, 1–100 characters.
    pub name: String,
    /// SHA-256 of the secret.
    pub hash: HashedToken,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working.
    pub expires_at: Timestamp,
    /// Absent until first used.
    pub last_use: Option<LastUse>,
}

impl Token {
    /// Whether it no longer works at `now`.
    pub fn expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at
    }
}
