//! Garbage collections of databases, and deleted refs that are kept for a while.

use super::Result;
use crate::entities::{CollectionRecord, KeptRef, RefKind};
use crate::values::{DatabaseId, KeptRefId, Timestamp};

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

/// The repository of deleted refs that are kept for a while.
pub trait KeptRefRepository {
    /// Adds a deleted ref.
    fn add(&mut self, database: DatabaseId, kept: &KeptRef) -> Result<()>;
    /// Returns a deleted ref, even if its time has ended.
    fn get(&mut self, database: DatabaseId, id: KeptRefId) -> Result<Option<KeptRef>>;
    /// Removes a deleted ref. Returns `true` if it existed.
    fn remove(&mut self, database: DatabaseId, id: KeptRefId) -> Result<bool>;
    /// Lists the deleted refs of a kind whose time ends after `now`, by descending id, before `before`.
    fn list(
        &mut self,
        database: DatabaseId,
        kind: RefKind,
        now: Timestamp,
        before: Option<KeptRefId>,
        limit: usize,
    ) -> Result<Vec<KeptRef>>;
    /// Removes the deleted refs of a database whose time ends at `until` or before; all of them if `until` is `None`.
    /// Returns how many.
    fn expire(&mut self, database: DatabaseId, until: Option<Timestamp>) -> Result<u64>;
    /// Returns when the time of a deleted ref ends, for the one that ends first.
    fn first_end(&mut self, database: DatabaseId) -> Result<Option<Timestamp>>;
}
