//! The outbox: events that are waiting for dispatch.

use super::{Inner, activities};
use crate::call_context;
use crate::entities::{Event, EventKind};
use crate::errors::PortError;
use crate::ports::Transaction;
use crate::values::{AccountId, DatabaseId, EventId, OwnerName, Timestamp};

/// Records an event in the activity feed and, if the hub sends webhooks, appends it to the outbox.
pub(super) fn emit(
    inner: &Inner,
    tx: &mut dyn Transaction,
    database_id: DatabaseId,
    by: (AccountId, &OwnerName),
    at: Timestamp,
    kind: EventKind,
) -> Result<(), PortError> {
    let database = tx.databases().get(database_id)?.ok_or(PortError::Unsettled("an event without its database"))?;
    let id = inner.ports.ids.uuid(at);
    if let Some(kind) = activities::of_event(&kind) {
        activities::note(tx, id, database_id, by, at, kind)?;
    }
    if !inner.ports.sends_webhooks {
        return Ok(());
    }
    let (body, trace) = (inner.ports.payloads.render(&database.locator, &kind), call_context::trace());
    Ok(tx.events().add(&Event { id: EventId::from_uuid(id), database_id, at, kind, body, trace })?)
}
