//! The outbox: events that are waiting for dispatch.

use super::{Inner, activities};
use crate::call_context;
use crate::entities::{Event, EventKind};
use crate::errors::PortError;
use crate::ports::Transaction;
use crate::values::{AccountId, DatabaseId, EventId, OwnerName, Timestamp};

/// Appends an event to the outbox and records it in the activity feed.
pub(super) fn emit(
    inner: &Inner,
    tx: &mut dyn Transaction,
    database_id: DatabaseId,
    by: (AccountId, &OwnerName),
    at: Timestamp,
    kind: EventKind,
) -> Result<(), PortError> {
    let database = tx.databases().get(database_id)?.ok_or(PortError::Unsettled("an event without its database"))?;
    let body = inner.ports.payloads.render(&database.locator, &kind);
    let id = inner.ports.ids.uuid(at);
    if let Some(kind) = activities::of_event(&kind) {
        activities::note(tx, id, database_id, by, at, kind)?;
    }
    let trace = call_context::trace();
    Ok(tx.events().add(&Event { id: EventId::from_uuid(id), database_id, at, kind, body, trace })?)
}
