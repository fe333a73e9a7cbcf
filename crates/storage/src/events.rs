//! The outbox of events.

use branchyard_domain::entities::Event;
use branchyard_domain::ports::{EventRepository, MetadataError, WriteKey};
use branchyard_domain::values::{DatabaseId, EventId, Timestamp};
use diesel::dsl::{exists, not};
use diesel::prelude::*;

use crate::convert::{Read, all, count, limit, read, read_if, time};
use crate::deferred::Deferred;
use crate::error::StoreError;
use crate::json;
use crate::schema::{deliveries, events};
use crate::transaction::SqlTransaction;
use crate::update::update;

type Result<T> = std::result::Result<T, MetadataError>;

pub(crate) const TRACEPARENT: &str = "events.traceparent";

#[derive(Queryable, Selectable)]
#[diesel(table_name = events)]
struct EventRow {
    id: String,
    database_id: String,
    at: i64,
    event: String,
    body: String,
    traceparent: Option<String>,
}

fn event(row: EventRow) -> Read<Event> {
    Ok(Event {
        id: read("events.id", row.id)?,
        database_id: read("events.database_id", row.database_id)?,
        at: time(row.at),
        kind: json::to_event(&row.event)?,
        body: row.body,
        trace: read_if(TRACEPARENT, row.traceparent)?,
    })
}

impl EventRepository for SqlTransaction {
    fn add(&mut self, event: &Event) -> Result<()> {
        self.needs(WriteKey::Database(event.database_id));
        const ADD: &str = "append an event";
        let kind = json::from_event(&event.kind).map_err(|error| StoreError::from(error).into_port(ADD))?;
        let statement = diesel::insert_into(events::table).values((
            events::id.eq(event.id.to_string()),
            events::database_id.eq(event.database_id.to_string()),
            events::at.eq(event.at.as_micros()),
            events::event.eq(kind),
            events::body.eq(event.body.clone()),
            events::traceparent.eq(event.trace.map(|trace| trace.to_string())),
        ));
        // Its position is that of its insert.
        self.run_deferred(ADD, Deferred::Change("events"), statement)
    }

    fn list(&mut self, database: DatabaseId, after: Option<EventId>, most: usize) -> Result<Vec<Event>> {
        self.run_apart_from_rights("list events", |conn| {
            let mut query = events::table.filter(events::database_id.eq(database.to_string())).into_boxed();
            if let Some(after) = after {
                let position: Option<i64> = events::table
                    .filter(events::id.eq(after.to_string()))
                    .select(events::position)
                    .first(conn)
                    .optional()?;
                query = match position {
                    Some(position) => query.filter(events::position.gt(position)),
                    // The event has been purged, and so have all events before it: ids sort by time of creation.
                    None => query.filter(events::id.gt(after.to_string())),
                };
            }
            let rows = query.order(events::position).limit(limit(most)).select(EventRow::as_select()).load(conn)?;
            all(rows, event)
        })
    }

    fn list_waiting(&mut self, most: usize) -> Result<Vec<Event>> {
        self.run_apart_from_rights("list waiting events", |conn| {
            let rows = events::table
                .filter(events::dispatched_at.is_null())
                .order(events::position)
                .limit(limit(most))
                .select(EventRow::as_select())
                .load(conn)?;
            all(rows, event)
        })
    }

    fn mark_dispatched(&mut self, id: EventId, at: Timestamp) -> Result<()> {
        self.needs(WriteKey::Server);
        self.run_apart_from_rights("note what became of an event", |conn| {
            let wanted = deliveries::table.filter(deliveries::event_id.eq(id.to_string()));
            if diesel::select(exists(wanted)).get_result(conn)? {
                update(events::table.filter(events::id.eq(id.to_string())))
                    .set(events::dispatched_at.eq(at.as_micros()))
                    .execute(conn)?;
            } else {
                diesel::delete(events::table.filter(events::id.eq(id.to_string()))).execute(conn)?;
            }
            Ok(())
        })
    }

    fn purge(&mut self) -> Result<u64> {
        self.run_apart_from_rights("purge events", |conn| {
            let wanted = deliveries::table.filter(deliveries::event_id.eq(events::id));
            let over = events::table.filter(events::dispatched_at.is_not_null()).filter(not(exists(wanted)));
            let removed = diesel::delete(over).execute(conn)?;
            Ok(count(i64::try_from(removed).unwrap_or(i64::MAX)))
        })
    }
}
