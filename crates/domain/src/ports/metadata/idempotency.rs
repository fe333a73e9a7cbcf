//! Answers saved for idempotency keys.

use super::Result;
use crate::values::{AccountId, Timestamp};

/// An answer saved for an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedAnswer {
    /// The user who made the request.
    pub caller: AccountId,
    /// Method and path of the request.
    pub scope: String,
    /// The idempotency key.
    pub key: String,
    /// SHA-256 of the request body.
    pub request_hash: [u8; 32],
    /// The answer as encoded by the adapter.
    pub answer: Vec<u8>,
    /// When the answer was produced.
    pub created_at: Timestamp,
}

/// The repository of answers saved for idempotency keys.
pub trait IdempotencyRepository {
    /// Saves an answer. Returns `MetadataError::Taken` if the key has one.
    fn add(&mut self, answer: &SavedAnswer) -> Result<()>;
    /// Returns the answer of a key, unless it is older than `not_before`.
    fn get(&mut self, caller: AccountId, scope: &str, key: &str, not_before: Timestamp) -> Result<Option<SavedAnswer>>;
    /// Removes answers older than `before`. Returns how many.
    fn purge(&mut self, before: Timestamp) -> Result<u64>;
}
