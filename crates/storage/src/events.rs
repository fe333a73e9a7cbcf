//! The outbox.

use branchyard_domain::entities::Event;
use branchyard_domain::ports::{EventRepository, MetadataError};
use branchyard_domain::values::{DatabaseId, EventId, Timestamp};
use diesel::prelude::*;

use crate::convert::{all, count, limit, read, time};
use crate::json;
use crate::schema::events;
use crate::unit::SqlUnit;

type Result<T> = std::result::Result<T, MetadataError>;

impl EventRepository for SqlUnit {
    fn event_add(&mut self, event: &Event) -> Result<()> {
        self.run("append an event", |conn| {
            diesel::insert_into(events::table)
                .values((
                    events::id.eq(event.id.to_string()),
                    events::database_id.eq(event.database_id.to_string()),
                    events::at.eq(event.at.as_micros()),
                    events::event.eq(json::from_event(&event.kind)?),
                ))
                .execute(conn)?;
            Ok(())
        })
    }

    fn event_list(&mut self, database: DatabaseId, after: Option<EventId>, most: usize) -> Result<Vec<Event>> {
        self.run("list events", |conn| {
            let mut query = events::table.filter(events::database_id.eq(database.to_string())).into_boxed();
            if let Some(after) = after {
                let position: Option<i64> = events::table
                    .filter(events::id.eq(after.to_string()))
                    .select(events::position)
                    .first(conn)
                    .optional()?;
                query = match position {
                    Some(position) => query.filter(events::position.gt(position)),
                    // The event was purged, and those before it too: ids sort by creation.
                    None => query.filter(events::id.gt(after.to_string())),
                };
            }
            let rows: Vec<(String, i64, String)> = query
                .order(events::position)
                .limit(limit(most))
                .select((events::id, events::at, events::event))
                .load(conn)?;
            all(rows, |(id, at, event)| {
                Ok(Event {
                    id: read("events.id", id)?,
                    database_id: database,
                    at: time(at),
                    kind: json::to_event(&event)?,
                })
            })
        })
    }

    fn event_purge(&mut self, before: Timestamp) -> Result<u64> {
        self.run("purge events", |conn| {
            let removed = diesel::delete(events::table.filter(events::at.lt(before.as_micros()))).execute(conn)?;
            Ok(count(i64::try_from(removed).unwrap_or(i64::MAX)))
        })
    }
}
