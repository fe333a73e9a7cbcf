//! Transactions whose keys follow from what is stored.

use super::Inner;
use crate::errors::PortError;
use crate::ports::{OperationFilter, OperationState, Transaction, WriteKey, WriteKeys};
use crate::values::{AccountId, DatabaseId, PullNumber};

/// Number of times that a transaction begins anew because what it needs has changed meanwhile.
const TRIES: usize = 8;

/// Begins a transaction that holds `keys`, and those that `needed` finds once it holds them.
pub(super) fn begin_write<'a, E: From<PortError>>(
    inner: &'a Inner,
    mut keys: WriteKeys,
    needed: impl Fn(&mut dyn Transaction) -> Result<Vec<WriteKey>, E>,
) -> Result<Box<dyn Transaction + 'a>, E> {
    keys = keys.and_all(needed(inner.ports.metadata.read().map_err(PortError::from)?.as_mut())?);
    for _ in 0..TRIES {
        let mut tx = inner.ports.metadata.write(&keys).map_err(PortError::from)?;
        let further = needed(tx.as_mut())?;
        if further.iter().all(|key| keys.contains(*key)) {
            return Ok(tx);
        }
        tx.discard();
        keys = keys.and_all(further);
    }
    Err(PortError::Unsettled("what a change depends on kept changing").into())
}

/// Returns the keys of a pull request, which changes with both of its databases.
pub(super) fn of_pull(
    tx: &mut dyn Transaction,
    base: DatabaseId,
    number: PullNumber,
) -> Result<Vec<WriteKey>, PortError> {
    let pull = tx.pulls().get(base, number)?;
    Ok(pull.map(|pull| WriteKey::Database(pull.from_database_id)).into_iter().collect())
}

/// Returns the keys of the databases with an open pull request from a database.
pub(super) fn of_pulls_from(tx: &mut dyn Transaction, source: DatabaseId) -> Result<Vec<WriteKey>, PortError> {
    let (mut keys, mut after) = (Vec::new(), None);
    loop {
        let page = tx.pulls().list_unmerged_from(source, after, PAGE)?;
        let Some(last) = page.last() else { return Ok(keys) };
        after = Some((last.database_id, last.number));
        keys.extend(page.iter().map(|pull| WriteKey::Database(pull.database_id)));
    }
}

/// Returns the keys of the databases from which there is an open pull request to a database.
pub(super) fn of_pulls_to(tx: &mut dyn Transaction, base: DatabaseId) -> Result<Vec<WriteKey>, PortError> {
    let (mut keys, mut after) = (Vec::new(), None);
    loop {
        let page = tx.pulls().list_unmerged_to(base, after, PAGE)?;
        let Some(last) = page.last() else { return Ok(keys) };
        after = Some(last.number);
        keys.extend(page.iter().map(|pull| WriteKey::Database(pull.from_database_id)));
    }
}

/// Returns the keys of the databases in which a user has queued operations.
pub(super) fn of_queued(tx: &mut dyn Transaction, user: AccountId) -> Result<Vec<WriteKey>, PortError> {
    let filter = OperationFilter { state: Some(OperationState::Queued), kinds: None };
    let (mut keys, mut before) = (Vec::new(), None);
    loop {
        let page = tx.operations().list_by(user, filter, before, PAGE)?;
        keys.extend(page.iter().map(|operation| WriteKey::Database(operation.database_id)));
        match page.last() {
            Some(last) if page.len() == PAGE => before = Some(last.id),
            _ => return Ok(keys),
        }
    }
}

/// Number of pull requests or operations that are read at once.
const PAGE: usize = 200;
