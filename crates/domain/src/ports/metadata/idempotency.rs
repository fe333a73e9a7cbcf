//! Saved answers of idempotency keys.

use super::Result;
use crate::values::{AccountId, Timestamp};

/// An answer kept for an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedAnswer {
    /// Who asked.
    pub caller: AccountId,
    /// Method and path.
    pub scope: String,
    /// The key.
    pub key: String,
    /// SHA-256 of the request body.
    pub request_hash: [u8; 32],
    /// The answer, as the adapter encoded it.
    pub answer: Vec<u8>,
    /// When it was given.
    pub created_at: Timestamp,
}

/// Saved answers of idempotency keys.
pub trait IdempotencyRepository {
    /// Keeps an answer. `Taken` when the key has one.
    fn add(&mut self, answer: &SavedAnswer) -> Result<()>;
    /// The answer of a key, unless it was given before `not_before`.
    fn get(&mut self, caller: AccountId, scope: &str, key: &str, not_before: Timestamp) -> Result<Option<SavedAnswer>>;
    /// Removes answers given before `before`; gives how many.
    fn purge(&mut self, before: Timestamp) -> Result<u64>;
}
