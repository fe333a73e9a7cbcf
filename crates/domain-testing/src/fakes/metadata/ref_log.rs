//! The log of changes of branches and tags.

use super::{MemoryTransaction, Result, count, page};
use branchyard_domain::entities::{RefChange, RefKind, RefLogEntry};
use branchyard_domain::ports::{RefLogRepository, WriteKey};
use branchyard_domain::values::{CommitHash, DatabaseId, RefLogId, RefName, Timestamp};

impl MemoryTransaction<'_> {
    pub(super) fn log_ref(
        &mut self,
        database: DatabaseId,
        kind: RefKind,
        name: &RefName,
        (old, new): (Option<&CommitHash>, Option<&CommitHash>),
        change: Option<RefChange>,
    ) -> Result<()> {
        let Some(RefChange { id, at, by, is_left_behind }) = change else { return Ok(()) };
        let entry = RefLogEntry {
            id,
            kind,
            name: name.clone(),
            old: old.cloned(),
            new: new.cloned(),
            at,
            by: Some(by),
            is_left_behind: is_left_behind && old.is_some(),
            is_erased: false,
        };
        self.change()?.ref_log.insert((database, id), entry);
        Ok(())
    }

    fn entries(&self, database: DatabaseId) -> impl DoubleEndedIterator<Item = &RefLogEntry> {
        self.state.ref_log.iter().filter(move |((of, _), _)| *of == database).map(|(_, entry)| entry)
    }
}

impl RefLogRepository for MemoryTransaction<'_> {
    fn next_change(
        &mut self,
        database: DatabaseId,
        kind: RefKind,
        name: &RefName,
        after: Timestamp,
    ) -> Result<Option<RefLogEntry>> {
        let of_ref = self.entries(database).filter(|entry| entry.kind == kind && entry.name == *name);
        Ok(of_ref.filter(|entry| entry.at > after).min_by_key(|entry| (entry.at, entry.id)).cloned())
    }

    fn previous_change(&mut self, database: DatabaseId, entry: &RefLogEntry) -> Result<Option<RefLogEntry>> {
        let of_ref = self.entries(database).filter(|other| other.kind == entry.kind && other.name == entry.name);
        let before = of_ref.filter(|other| (other.at, other.id) < (entry.at, entry.id));
        Ok(before.max_by_key(|other| (other.at, other.id)).cloned())
    }

    fn left_behind(&mut self, database: DatabaseId, id: RefLogId) -> Result<Option<RefLogEntry>> {
        Ok(self.state.ref_log.get(&(database, id)).filter(|entry| entry.is_left_behind).cloned())
    }

    fn list_left_behind(
        &mut self,
        database: DatabaseId,
        since: Timestamp,
        before: Option<RefLogId>,
        limit: usize,
    ) -> Result<Vec<RefLogEntry>> {
        let left = self.entries(database).rev().filter(|entry| entry.is_left_behind && entry.at > since);
        Ok(page(left.filter(|entry| before.is_none_or(|before| entry.id < before)).cloned(), limit))
    }

    fn list_deleted_branches(
        &mut self,
        database: DatabaseId,
        since: Timestamp,
        before: Option<RefLogId>,
        limit: usize,
    ) -> Result<Vec<RefLogEntry>> {
        let is_free = |name: &RefName| !self.state.branches.contains_key(&(database, name.clone()));
        let deleted = self.entries(database).rev().filter(|entry| {
            entry.is_left_behind && entry.kind == RefKind::Branch && entry.new.is_none() && entry.at > since
        });
        let deleted = deleted.filter(|entry| is_free(&entry.name));
        Ok(page(deleted.filter(|entry| before.is_none_or(|before| entry.id < before)).cloned(), limit))
    }

    fn first_left_behind(&mut self, database: DatabaseId) -> Result<Option<Timestamp>> {
        Ok(self.entries(database).filter(|entry| entry.is_left_behind).map(|entry| entry.at).min())
    }

    fn update(&mut self, database: DatabaseId, entry: &RefLogEntry) -> Result<()> {
        self.needs(WriteKey::Database(database));
        if let Some(stored) = self.change()?.ref_log.get_mut(&(database, entry.id)) {
            stored.clone_from(entry);
        }
        Ok(())
    }

    fn expire(&mut self, database: DatabaseId, until: Option<Timestamp>) -> Result<u64> {
        self.needs(WriteKey::Database(database));
        let log = &mut self.change()?.ref_log;
        let had = log.len();
        log.retain(|(of, _), entry| *of != database || until.is_some_and(|until| entry.at > until));
        Ok(count(had - log.len()))
    }

    fn purge(&mut self, until: Timestamp) -> Result<u64> {
        let log = &mut self.change()?.ref_log;
        let had = log.len();
        log.retain(|_, entry| entry.at > until);
        Ok(count(had - log.len()))
    }

    fn complete_from(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.state.ref_log_start)
    }

    fn set_complete_from(&mut self, from: Timestamp) -> Result<()> {
        self.needs(WriteKey::Server);
        self.change()?.ref_log_start = Some(from);
        Ok(())
    }
}
