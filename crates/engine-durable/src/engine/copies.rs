//! Keeps the files on this node, and the segments of its databases, in order.

use std::collections::HashMap;

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::DatabaseId;
use branchyard_segments::{Error, FileError, Known, Records as _, run};

use super::entry::release;
use super::{DurableEngine, Entry, RecordSource};

impl<S: RecordSource> DurableEngine<S> {
    /// Removes the files that were not used for longest, until the others have at most `most` bytes together. Files in use stay. Returns
    /// the number of removed files.
    ///
    /// # Errors
    /// [`EngineError`] if the files cannot be listed.
    pub fn evict(&self, most: u64) -> Result<usize, EngineError> {
        let mut found = Vec::new();
        let mut total = 0;
        for database in self.inner().list()? {
            let Ok(length) = self.inner().size_bytes(database) else { continue };
            total += length;
            let entry = self.databases.lock().get(&database).cloned();
            let used_at = entry.as_ref().map(|entry| *entry.used_at.lock());
            found.push((used_at, length, database, entry));
        }
        // What was not used since the start comes first.
        found.sort_by_key(|(used_at, ..)| *used_at);
        let mut removed = 0;
        for (_, length, database, entry) in found {
            if total <= most {
                break;
            }
            let entry = entry.unwrap_or_else(|| self.entry(database));
            if self.remove_copy(database, &entry, |_| true)? {
                total -= length;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Removes copies of databases whose durable bytes are others by now: those that were deleted, and those of an earlier generation.
    /// Files in use stay. `rows` has the generation and the durable length of each database. Returns the number of removed files.
    ///
    /// # Errors
    /// [`EngineError`] if the files cannot be listed or removed.
    pub fn remove_outdated(&self, rows: &HashMap<DatabaseId, Known>) -> Result<usize, EngineError> {
        let mut removed = 0;
        for database in self.inner().list()? {
            let Some(row) = rows.get(&database) else { continue };
            let is_outdated = |entry: &Entry<S::Records>| {
                let is_earlier = |known: Known| known.generation < row.generation;
                !entry.is_leading() && (row.length == 0 || entry.status.state().known().is_some_and(is_earlier))
            };
            let entry = self.entry(database);
            if is_outdated(&entry) {
                removed += usize::from(self.remove_copy(database, &entry, is_outdated)?);
            }
        }
        Ok(removed)
    }

    /// Removes the file of a database unless it is in use, if `is_wanted` returns `true` then.
    fn remove_copy(
        &self,
        database: DatabaseId,
        entry: &Entry<S::Records>,
        is_wanted: impl Fn(&Entry<S::Records>) -> bool,
    ) -> Result<bool, EngineError> {
        let (Some(_unused), Some(mut file)) = (entry.use_of_file.try_write(), entry.turn.try_lock()) else {
            return Ok(false);
        };
        if !is_wanted(entry) {
            return Ok(false);
        }
        release(&mut file);
        file.distrust();
        self.inner().remove(database)?;
        Ok(true)
    }

    /// Replaces many small segments of the databases that this node leads by few large ones, where that is due. Returns how many
    /// databases were compacted.
    pub fn compact(&self) -> usize {
        let entries: Vec<_> = self.databases.lock().values().cloned().collect();
        let mut compacted = 0;
        for entry in entries {
            if !entry.is_leading() {
                continue;
            }
            let due = {
                let file = entry.turn.lock();
                match run(file.ports().records.load(None)) {
                    Ok(row) => file.compaction(&row),
                    Err(error) => {
                        tracing::warn!(%error, "cannot look for segments to compact");
                        return compacted;
                    }
                }
            };
            match due.map(|due| run(due.run())) {
                None => {}
                Some(Ok(is_done)) => compacted += usize::from(is_done),
                Some(Err(error)) => {
                    if let Error::File(FileError::Damaged(_)) = error {
                        entry.turn.lock().distrust();
                    }
                    tracing::warn!(%error, "cannot compact the segments of a database");
                }
            }
        }
        compacted
    }
}
