//! The texts of operations, such as their statements, which contain what was written. They go with the data.

use crate::entities::{Operation, OperationKind, OperationStatus};
use crate::errors::PortError;
use crate::ports::{Durability, OperationFilter, WriteKeys};
use crate::usecases::Inner;
use crate::values::DatabaseId;

/// Number of operations looked at in one transaction.
const PAGE: usize = 200;
const WITH_TEXTS: &[OperationKind] = &[OperationKind::SqlWrite, OperationKind::Merge, OperationKind::Import];

/// Removes the texts of the operations of `database` whose commits its file does not hold any more.
pub(super) fn remove_of_lost_commits(inner: &Inner, database: DatabaseId) -> Result<(), PortError> {
    remove(inner, database, |operation| match &operation.status {
        OperationStatus::Succeeded(outcome) => match &outcome.commit {
            Some(commit) => Ok(inner.ports.engine.commit(database, commit)?.is_none()),
            None => Ok(false),
        },
        _ => Ok(false),
    })?;
    Ok(inner.ports.metadata.scrub()?)
}

/// Removes the texts of all operations of a deleted database.
pub(super) fn remove_of_deleted(inner: &Inner, database: DatabaseId) -> Result<(), PortError> {
    remove(inner, database, |operation| Ok(operation.settled()))
}

fn remove(
    inner: &Inner,
    database: DatabaseId,
    goes: impl Fn(&Operation) -> Result<bool, PortError>,
) -> Result<(), PortError> {
    let filter = OperationFilter { state: None, kinds: Some(WITH_TEXTS) };
    let mut before = None;
    loop {
        let page = inner.ports.metadata.read()?.operations().list(database, filter, before, PAGE)?;
        let mut concealed = Vec::new();
        for operation in &page {
            if goes(operation)? {
                let mut without = operation.clone();
                without.conceal();
                concealed.extend((without.work != operation.work).then_some(without));
            }
        }
        if !concealed.is_empty() {
            let mut tx = inner.ports.metadata.write(&WriteKeys::database(database))?;
            for operation in &concealed {
                tx.operations().replace_work(operation.id, &operation.work)?;
            }
            tx.commit(Durability::Synced)?;
        }
        match page.last() {
            Some(last) if page.len() == PAGE => before = Some(last.id),
            _ => return Ok(()),
        }
    }
}
