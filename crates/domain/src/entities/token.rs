//! API tokens as stored, with a hash in place of the secret.

use branchyard_auth::HashedToken;

use crate::values::{AccountId, Timestamp, TokenId};

/// The last use of a token or session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastUse {
    /// When the credential was used. Recorded with a delay of at most 30 s.
    pub at: Timestamp,
    /// Network address of the client.
    pub address: String,
    /// `User-Agent` of the client.
    pub user_agent: String,
}

/// An API token of a user.
#[derive(Debug, Clone)]
pub struct Token {
    /// Id of the token. Not secret.
    pub id: TokenId,
    /// The user.
    pub user_id: AccountId,
    /// Label of the token, 1–100 characters.
    pub name: String,
    /// SHA-256 of the secret.
    pub hash: HashedToken,
    /// When the token was created.
    pub created_at: Timestamp,
    /// When the token expires.
    pub expires_at: Timestamp,
    /// The last use. `None` before the first use.
    pub last_use: Option<LastUse>,
}

impl Token {
    /// Returns `true` if the token has expired at `now`.
    pub fn expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at
    }
}
