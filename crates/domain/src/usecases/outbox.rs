//! The outbox: events that are waiting for dispatch.

use uuid::Uuid;

use super::{Inner, activities};
use crate::call_context;
use crate::entities::{DatabaseLocator, Event, EventKind};
use crate::errors::PortError;
use crate::ports::Transaction;
use crate::values::{AccountId, DatabaseId, EventId, OwnerName, Timestamp};

/// An event of a database.
pub(super) struct SentEvent<'a> {
    pub(super) database: (DatabaseId, &'a DatabaseLocator),
    /// The user who caused it.
    pub(super) by: (AccountId, &'a OwnerName),
    pub(super) at: Timestamp,
    pub(super) kind: EventKind,
}

/// Records an event as [`emit_of`] does.
pub(super) fn emit(
    inner: &Inner,
    tx: &mut dyn Transaction,
    database_id: DatabaseId,
    by: (AccountId, &OwnerName),
    at: Timestamp,
    kind: EventKind,
) -> Result<(), PortError> {
    let database = tx.databases().get(database_id)?.ok_or(PortError::Unsettled("an event without its database"))?;
    emit_of(inner, tx, SentEvent { database: (database_id, &database.locator), by, at, kind })
}

/// Records an event in the activity feed and, if the hub sends webhooks, appends it to the outbox.
pub(super) fn emit_of(inner: &Inner, tx: &mut dyn Transaction, event: SentEvent<'_>) -> Result<(), PortError> {
    let id = EventId::from_uuid(note_activity(inner, tx, &event)?);
    if !inner.ports.sends_webhooks {
        return Ok(());
    }
    let SentEvent { database: (database_id, locator), at, kind, .. } = event;
    let (body, trace) = (inner.ports.payloads.render(locator, &kind), call_context::trace());
    Ok(tx.events().add(&Event { id, database_id, at, kind, body, trace })?)
}

/// Records an event in the activity feed, if it belongs there. Returns the id of the event.
pub(super) fn note_activity(inner: &Inner, tx: &mut dyn Transaction, event: &SentEvent<'_>) -> Result<Uuid, PortError> {
    let id = inner.ports.ids.uuid(event.at);
    if let Some(kind) = activities::of_event(&event.kind) {
        activities::note(tx, id, event.database.0, event.by, event.at, kind)?;
    }
    Ok(id)
}
