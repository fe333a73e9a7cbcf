//! Idempotency: the answer to a request is saved in the transaction of its effect.

use super::Inner;
use crate::errors::PortError;
use crate::ports::{MetadataError, SavedAnswer, Transaction};
use crate::values::{AccountId, Timestamp};

/// The idempotency key of a request, with what is needed to save the answer under it.
pub struct IdempotencyRecord<'a, T> {
    /// The account that sent the request.
    pub caller: AccountId,
    /// Method and path of the request.
    pub scope: String,
    /// The key, as sent by the caller.
    pub key: String,
    /// SHA-256 of the request body.
    pub request_hash: [u8; 32],
    /// Encodes the answer as bytes, which are opaque to the domain.
    pub render: &'a dyn Fn(&T) -> Vec<u8>,
}

/// Saves the answer for `value`, if the request has an idempotency key.
pub(super) fn keep<T>(
    inner: &Inner,
    tx: &mut dyn Transaction,
    once: Option<&IdempotencyRecord<'_, T>>,
    value: &T,
    now: Timestamp,
) -> Result<(), PortError> {
    let Some(once) = once else { return Ok(()) };
    // Reads ignore an expired answer, but its key would still conflict with the new one.
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
        Err(MetadataError::Taken) => Err(PortError::KeyTaken),
        other => Ok(other?),
    }
}
