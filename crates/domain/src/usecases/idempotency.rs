//! Idempotency: the answer of a request is kept in the transaction of its effect.

use super::Inner;
use crate::errors::Fault;
use crate::ports::{MetadataError, SavedAnswer, Transaction};
use crate::values::{AccountId, Timestamp};

/// Keeps the answer of a request under the caller's key, together with its effect.
pub struct IdempotencyRecord<'a, T> {
    /// Who asks.
    pub caller: AccountId,
    /// Method and path.
    pub scope: String,
    /// The key.
    pub key: String,
    /// SHA-256 of the request body.
    pub request_hash: [u8; 32],
    /// Encodes the answer; opaque to the domain.
    pub render: &'a dyn Fn(&T) -> Vec<u8>,
}

/// Saves the answer for `value`, when a key was given.
pub(super) fn keep<T>(
    inner: &Inner,
    tx: &mut dyn Transaction,
    once: Option<&IdempotencyRecord<'_, T>>,
    value: &T,
    now: Timestamp,
) -> Result<(), Fault> {
    let Some(once) = once else { return Ok(()) };
    // An expired answer is invisible, but would still stand in the way of a new one.
    tx.idempotency().purge(now.plus_seconds(-inner.limits.answer_retention_seconds))?;
    let answer = SavedAnswer {
        caller: once.caller,
        scope: once.scope.clone(),
        key: once.key.clone(),
        request_hash: once.request_hash,
        answer: (once.render)(value),
        created_at: now,
    };
    match tx.idempotency().add(&answer) {
        Err(MetadataError::Taken) => Err(Fault::KeyTaken),
        other => Ok(other?),
    }
}
