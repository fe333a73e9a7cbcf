//! Garbage collections of databases.

use super::Result;
use crate::entities::CollectionRecord;
use crate::values::{DatabaseId, Timestamp};

/// A database whose collection is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueCollection {
    /// The database.
    pub database_id: DatabaseId,
    /// Whether an operation of the database is running, or waits to be run again.
    pub is_busy: bool,
}

/// The repository of the records of garbage collections.
pub trait CollectionRepository {
    /// Returns the record of a database; the default one if there is none.
    fn get(&mut self, database: DatabaseId) -> Result<CollectionRecord>;
    /// Stores the record of a database.
    fn put(&mut self, database: DatabaseId, record: &CollectionRecord) -> Result<()>;
    /// Lists the live databases whose collection is due at `now` and that no other holder than `holder` has leased
    /// then: urgent ones first, then by the time since which they are due.
    fn due(&mut self, holder: &str, now: Timestamp, limit: usize) -> Result<Vec<DueCollection>>;
    /// Ends the leases of all holders of a node (`<node>/…`) when the node starts. Returns how many.
    fn recover(&mut self, node: &str) -> Result<u64>;
}
