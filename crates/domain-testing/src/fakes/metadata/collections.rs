//! Garbage collections of databases, and deleted refs that are kept for a while.

use super::{MemoryTransaction, Result, count, missing, page};
use branchyard_domain::entities::{CollectionRecord, KeptRef, OperationStatus, RefKind};
use branchyard_domain::ports::{CollectionRepository, DueCollection, KeptRefRepository, WriteKey};
use branchyard_domain::values::{DatabaseId, KeptRefId, Timestamp};

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

impl KeptRefRepository for MemoryTransaction<'_> {
    fn add(&mut self, database: DatabaseId, kept: &KeptRef) -> Result<()> {
        self.needs(WriteKey::Database(database));
        if !self.state.databases.contains_key(&database) {
            return Err(missing("keep a deleted ref"));
        }
        self.change()?.kept_refs.insert((database, kept.id), kept.clone());
        Ok(())
    }

    fn get(&mut self, database: DatabaseId, id: KeptRefId) -> Result<Option<KeptRef>> {
        Ok(self.state.kept_refs.get(&(database, id)).cloned())
    }

    fn remove(&mut self, database: DatabaseId, id: KeptRefId) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        Ok(self.change()?.kept_refs.remove(&(database, id)).is_some())
    }

    fn list(
        &mut self,
        database: DatabaseId,
        kind: RefKind,
        now: Timestamp,
        before: Option<KeptRefId>,
        limit: usize,
    ) -> Result<Vec<KeptRef>> {
        let all = self.state.kept_refs.iter().rev().filter(|((of, _), _)| *of == database).map(|(_, kept)| kept);
        let found = all.filter(|k| k.kind == kind && k.until > now && before.is_none_or(|before| k.id < before));
        Ok(page(found.cloned(), limit))
    }

    fn expire(&mut self, database: DatabaseId, until: Option<Timestamp>) -> Result<u64> {
        self.needs(WriteKey::Database(database));
        let kept = &mut self.change()?.kept_refs;
        let had = kept.len();
        kept.retain(|(of, _), kept| *of != database || until.is_some_and(|until| kept.until > until));
        Ok(count(had - kept.len()))
    }

    fn first_end(&mut self, database: DatabaseId) -> Result<Option<Timestamp>> {
        let of_database = self.state.kept_refs.iter().filter(|((of, _), _)| *of == database);
        Ok(of_database.map(|(_, kept)| kept.until).min())
    }
}
