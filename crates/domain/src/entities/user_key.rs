//! The keys with which clients of the engine authenticate.

use branchyard_auth::{PublicKey, RemoteKeyId};

use crate::values::{AccountId, Timestamp, UserKeyId};

/// The public half of a key pair of a user. A client of the engine has the private one, and signs its requests with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserKey {
    /// Id of the record.
    pub id: UserKeyId,
    /// The user.
    pub user_id: AccountId,
    /// Label of the key, 1–100 characters.
    pub name: String,
    /// The key.
    pub public_key: PublicKey,
    /// The id by which clients name the key.
    pub kid: RemoteKeyId,
    /// When the key was added.
    pub created_at: Timestamp,
    /// When the key was used last. Recorded with a delay of at most 30 s. `None` before the first use.
    pub last_used_at: Option<Timestamp>,
}
