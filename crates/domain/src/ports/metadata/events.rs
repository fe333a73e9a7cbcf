//! The outbox and the activity log.

use super::Result;
use crate::entities::{Activity, Event};
use crate::values::{DatabaseId, EventId, PullNumber, Timestamp};

/// The outbox of events.
pub trait EventRepository {
    /// Appends an event to the outbox.
    fn add(&mut self, event: &Event) -> Result<()>;
    /// Lists the events of a database in the order they were appended, after `after`.
    fn list(&mut self, database: DatabaseId, after: Option<EventId>, limit: usize) -> Result<Vec<Event>>;
    /// Lists events whose deliveries have not been created, in the order they were appended.
    fn list_waiting(&mut self, limit: usize) -> Result<Vec<Event>>;
    /// Records that the deliveries of an event were created. Removes the event if it has none.
    fn mark_dispatched(&mut self, id: EventId, at: Timestamp) -> Result<()>;
    /// Removes dispatched events that have no deliveries left. Returns how many.
    fn purge(&mut self) -> Result<u64>;
}

/// The activity log of databases.
pub trait ActivityRepository {
    /// Records an activity. Its `by_name` is ignored; lists return the user's present name.
    fn add(&mut self, activity: &Activity) -> Result<()>;
    /// Lists the activities of a database, newest first.
    fn list(&mut self, database: DatabaseId, limit: usize) -> Result<Vec<Activity>>;
    /// Lists the activities of a pull request, newest first.
    fn list_of_pull(&mut self, database: DatabaseId, number: PullNumber, limit: usize) -> Result<Vec<Activity>>;
    /// Removes activities before `before`, except those of pull requests. Returns how many.
    fn purge(&mut self, before: Timestamp) -> Result<u64>;
    /// Removes all activities of a database.
    fn clear(&mut self, database: DatabaseId) -> Result<()>;
}
