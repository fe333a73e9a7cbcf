//! Garbage collections of databases.

use super::{MemoryTransaction, Result, count, missing, page};
use branchyard_domain::entities::{CollectionRecord, OperationStatus};
use branchyard_domain::ports::{CollectionRepository, DueCollection, WriteKey};
use branchyard_domain::values::{DatabaseId, Timestamp};

impl CollectionRepository for MemoryTransaction<'_> {
    fn get(&mut self, database: DatabaseId) -> Result<CollectionRecord> {
        Ok(self.state.collections.get(&database).cloned().unwrap_or_default())
    }

    fn put(&mut self, database: DatabaseId, record: &CollectionRecord) -> Result<()> {
        self.needs(WriteKey::Database(database));
        if !self.state.databases.contains_key(&database) {
            return Err(missing("record a collection"));
        }
        self.change()?.collections.insert(database, record.clone());
        Ok(())
    }

    fn due(&mut self, holder: &str, now: Timestamp, limit: usize) -> Result<Vec<DueCollection>> {
        let is_live = |id: &DatabaseId| self.state.databases.get(id).is_some_and(|d| d.deleted_at.is_none());
        let is_free = |record: &CollectionRecord| {
            record.lease.as_ref().is_none_or(|(other, until)| other == holder || *until <= now)
        };
        let all = self.state.collections.iter();
        let mut due: Vec<_> = all.filter(|(id, r)| is_live(id) && r.is_due(now) && is_free(r)).collect();
        due.sort_by_key(|(id, record)| (!record.is_urgent, record.due_at, **id));
        let running = |id: DatabaseId| {
            let mut operations = self.state.operations.values().map(|leased| &leased.operation);
            operations.any(|o| o.database_id == id && o.status == OperationStatus::Running)
        };
        let due = due.into_iter().map(|(id, _)| DueCollection { database_id: *id, is_busy: running(*id) });
        Ok(page(due, limit))
    }

    fn recover(&mut self, node: &str) -> Result<u64> {
        let of_node = format!("{node}/");
        let records = self.change()?.collections.values_mut();
        let ended = records.filter_map(|record| record.lease.take_if(|(holder, _)| holder.starts_with(&of_node)));
        Ok(count(ended.count()))
    }
}
