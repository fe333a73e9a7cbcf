//! The log of changes of branches and tags.

use super::Result;
use crate::entities::{RefKind, RefLogEntry};
use crate::values::{DatabaseId, RefLogId, RefName, Timestamp};

/// The repository of recorded changes of refs. The methods that change a ref add to it.
pub trait RefLogRepository {
    /// Returns the first change of a ref after a time.
    fn next_change(
        &mut self,
        database: DatabaseId,
        kind: RefKind,
        name: &RefName,
        after: Timestamp,
    ) -> Result<Option<RefLogEntry>>;
    /// Returns the change of the same ref before another one.
    fn previous_change(&mut self, database: DatabaseId, entry: &RefLogEntry) -> Result<Option<RefLogEntry>>;
    /// Returns an entry that leaves a commit behind.
    fn left_behind(&mut self, database: DatabaseId, id: RefLogId) -> Result<Option<RefLogEntry>>;
    /// Lists the entries after `since` that leave a commit behind, by descending id, before `before`.
    fn list_left_behind(
        &mut self,
        database: DatabaseId,
        since: Timestamp,
        before: Option<RefLogId>,
        limit: usize,
    ) -> Result<Vec<RefLogEntry>>;
    /// Lists the deletions after `since` of branches whose names are free now, by descending id, before `before`.
    fn list_deleted_branches(
        &mut self,
        database: DatabaseId,
        since: Timestamp,
        before: Option<RefLogId>,
        limit: usize,
    ) -> Result<Vec<RefLogEntry>>;
    /// Returns the time of the first entry that leaves a commit behind.
    fn first_left_behind(&mut self, database: DatabaseId) -> Result<Option<Timestamp>>;
    /// Stores whether an entry leaves a commit behind, or is erased.
    fn update(&mut self, database: DatabaseId, entry: &RefLogEntry) -> Result<()>;
    /// Removes the entries of a database up to `until`; all of them if `until` is `None`. Returns how many.
    fn expire(&mut self, database: DatabaseId, until: Option<Timestamp>) -> Result<u64>;
    /// Removes the entries of all databases up to `until`. Returns how many.
    fn purge(&mut self, until: Timestamp) -> Result<u64>;
    /// Returns since when all changes are recorded. `None` if they always were.
    fn complete_from(&mut self) -> Result<Option<Timestamp>>;
    /// Stores since when all changes are recorded.
    fn set_complete_from(&mut self, from: Timestamp) -> Result<()>;
}
