//! Releases.

use std::cmp::Reverse;

use super::{MemoryTransaction, Result, page};
use branchyard_domain::entities::Release;
use branchyard_domain::ports::{MetadataError, ReleaseRepository, WriteKey};
use branchyard_domain::values::{DatabaseId, RefName, Timestamp};

impl ReleaseRepository for MemoryTransaction<'_> {
    fn add(&mut self, database: DatabaseId, release: &Release) -> Result<()> {
        self.needs(WriteKey::Database(database));
        let key = (database, release.tag.clone());
        if self.state.releases.contains_key(&key) {
            return Err(MetadataError::Taken);
        }
        self.change()?.releases.insert(key, release.clone());
        Ok(())
    }

    fn get(&mut self, database: DatabaseId, tag: &RefName) -> Result<Option<Release>> {
        Ok(self.state.releases.get(&(database, tag.clone())).cloned())
    }

    fn list(&mut self, database: DatabaseId, after: Option<(Timestamp, &str)>, limit: usize) -> Result<Vec<Release>> {
        let key = |at: Timestamp, tag: &str| (Reverse(at), tag.to_owned());
        let after = after.map(|(at, tag)| key(at, tag));
        let of = self.state.releases.iter().filter(|((id, _), _)| *id == database).map(|(_, release)| release);
        let mut found: Vec<&Release> = of.collect();
        found.retain(|r| after.as_ref().is_none_or(|after| key(r.created_at, r.tag.as_str()) > *after));
        found.sort_by_key(|r| key(r.created_at, r.tag.as_str()));
        Ok(page(found.into_iter().cloned(), limit))
    }

    fn update(&mut self, database: DatabaseId, release: &Release) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        let key = (database, release.tag.clone());
        let Some(stored) = self.change()?.releases.get_mut(&key) else { return Ok(false) };
        stored.title.clone_from(&release.title);
        stored.description.clone_from(&release.description);
        stored.updated_at = release.updated_at;
        Ok(true)
    }

    fn remove(&mut self, database: DatabaseId, tag: &RefName) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        Ok(self.change()?.releases.remove(&(database, tag.clone())).is_some())
    }
}
