//! The outbox and the activity log.

use super::Result;
use crate::entities::{Activity, Event};
use crate::values::{DatabaseId, EventId, PullNumber, Timestamp};

/// The outbox of events.
pub trait EventRepository {
    /// Appends an event.
    fn add(&mut self, event: &Event) -> Result<()>;
    /// Events of a database in the order they were appended, after `after`.
    fn list(&mut self, database: DatabaseId, after: Option<EventId>, limit: usize) -> Result<Vec<Event>>;
    /// Events of which no deliveries were made yet, in the order they were appended.
    fn list_waiting(&mut self, limit: usize) -> Result<Vec<Event>>;
    /// Notes that the deliveries of an event were made; without any, it is removed.
    fn mark_dispatched(&mut self, id: EventId, at: Timestamp) -> Result<()>;
    /// Removes events whose deliveries were made and are gone; gives how many.
    fn purge(&mut self) -> Result<u64>;
}

/// The activity log of databases.
pub trait ActivityRepository {
    /// Notes something; the name of who did it is not kept.
    fn add(&mut self, activity: &Activity) -> Result<()>;
    /// What happened in a database, newest first.
    fn list(&mut self, database: DatabaseId, limit: usize) -> Result<Vec<Activity>>;
    /// What happened to a pull, newest first.
    fn list_of_pull(&mut self, database: DatabaseId, number: PullNumber, limit: usize) -> Result<Vec<Activity>>;
    /// Removes what happened before `before`, except to pulls; gives how much.
    fn purge(&mut self, before: Timestamp) -> Result<u64>;
    /// Removes all of a database.
    fn clear(&mut self, database: DatabaseId) -> Result<()>;
}
