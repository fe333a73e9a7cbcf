//! Mirrors.

use std::collections::BTreeMap;

use super::{MemoryTransaction, Result, missing, page};
use branchyard_domain::entities::Mirror;
use branchyard_domain::ports::{MetadataError, MirrorRepository, WriteKey};
use branchyard_domain::values::{DatabaseId, Timestamp};

impl MirrorRepository for MemoryTransaction<'_> {
    fn add(&mut self, mirror: &Mirror) -> Result<()> {
        self.needs(WriteKey::Database(mirror.database_id));
        if !self.state.databases.contains_key(&mirror.database_id) {
            return Err(missing("add a mirror"));
        }
        if self.state.mirrors.contains_key(&mirror.database_id) {
            return Err(MetadataError::Taken);
        }
        self.change()?.mirrors.insert(mirror.database_id, mirror.clone());
        Ok(())
    }

    fn get(&mut self, database: DatabaseId) -> Result<Option<Mirror>> {
        Ok(self.state.mirrors.get(&database).cloned())
    }

    fn update(&mut self, mirror: &Mirror) -> Result<bool> {
        self.needs(WriteKey::Database(mirror.database_id));
        let found = self.change()?.mirrors.get_mut(&mirror.database_id);
        Ok(found.map(|found| *found = mirror.clone()).is_some())
    }

    fn remove(&mut self, database: DatabaseId) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        Ok(self.change()?.mirrors.remove(&database).is_some())
    }

    fn due(&mut self, now: Timestamp, limit: usize) -> Result<Vec<Mirror>> {
        let mirrors = self.state.mirrors.values();
        let mut due: Vec<Mirror> =
            mirrors.filter(|mirror| mirror.next_sync_at.is_some_and(|next| next <= now)).cloned().collect();
        due.sort_by_key(|mirror| (mirror.next_sync_at, mirror.database_id));
        Ok(page(due.into_iter(), limit))
    }

    fn list_sealed_otherwise(&mut self, key_id: &str, after: Option<DatabaseId>, limit: usize) -> Result<Vec<Mirror>> {
        let others = self.state.mirrors.values().filter(|mirror| mirror.seed.key_id != key_id);
        Ok(page(others.filter(|mirror| after.is_none_or(|after| mirror.database_id > after)).cloned(), limit))
    }

    fn count_by_key(&mut self) -> Result<Vec<(String, u64)>> {
        let mut counts = BTreeMap::new();
        for mirror in self.state.mirrors.values() {
            *counts.entry(mirror.seed.key_id.clone()).or_default() += 1;
        }
        Ok(counts.into_iter().collect())
    }
}
