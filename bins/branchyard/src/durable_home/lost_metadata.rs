//! Goes on with metadata that are older than the store of databases, and brings back what they lost.

use std::collections::BTreeMap;
use std::time::Duration;

use branchyard_domain::ports::{DatabaseFiles, EngineError};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_segments::{AcceptedLoss, Epoch, ObjectKey, Record, Records as _, run};
use branchyard_storage::{for_each_object, remove_marks, store_loss};

use super::DurableHome;
use crate::lost_changes::LostChanges;

impl DurableHome {
    /// Accepts that the metadata are older than the store. The objects of what they lost are kept for `keep`, and can no longer come
    /// into use. No node may run. Returns the databases that lost something, with the number of those objects.
    ///
    /// # Errors
    /// Fails if one of the stores fails. Trying again is safe.
    pub(crate) fn accept_older_metadata(&self, keep: Duration) -> anyhow::Result<BTreeMap<DatabaseId, u64>> {
        let rows = self.metadata.objects();
        let (mut epochs, mut lost) = (BTreeMap::<DatabaseId, u64>::new(), BTreeMap::<DatabaseId, _>::new());
        for_each_object(self.store.as_ref(), |page| {
            let names: Vec<String> = page.iter().map(ToString::to_string).collect();
            let mut unnamed = Vec::new();
            for ((key, name), examined) in page.iter().zip(&names).zip(rows.examine(&names)?) {
                let Ok(database) = DatabaseId::parse(&key.database) else { continue };
                let epoch = epochs.entry(database).or_default();
                *epoch = (*epoch).max(key.epoch.0);
                if !examined.is_named {
                    unnamed.push(name.clone());
                }
                let Record { generation, durable_length, epoch, .. } = examined.record;
                let loss = AcceptedLoss { generation, durable_length, epoch };
                if !examined.is_named && loss.may_have_lost(epoch, key) {
                    lost.entry(database).or_insert((loss, 0)).1 += 1;
                }
            }
            Ok::<_, anyhow::Error>(rows.doom(&unnamed, keep)?)
        })?;
        for (database, (loss, _)) in &lost {
            let epoch = epochs.get(database).map_or(loss.epoch, |epoch| Epoch(*epoch));
            store_loss(self.store.as_ref(), *database, &AcceptedLoss { epoch, ..*loss })?;
        }
        rows.raise_epochs(&epochs)?;
        Ok(lost.into_iter().map(|(database, (_, objects))| (database, objects)).collect())
    }

    /// Brings what a database lost, when older metadata were accepted, into files of their own.
    ///
    /// # Errors
    /// Fails if one of the stores fails, or if a file cannot be written.
    pub(crate) fn find_lost_changes(
        &self,
        files: &dyn DatabaseFiles,
        database: DatabaseId,
        fresh: impl FnMut() -> DatabaseId,
    ) -> anyhow::Result<LostChanges> {
        let row = run(self.metadata.records(database).load(None))?;
        let named: Vec<ObjectKey> = row.segments.iter().filter_map(|segment| segment.object.parse().ok()).collect();
        LostChanges::find(self.store.as_ref(), files, database, &named, fresh)
    }

    /// Takes the lease of a database, also from another node.
    ///
    /// # Errors
    /// [`EngineError`].
    pub(crate) fn take_over(&self, database: DatabaseId) -> Result<(), EngineError> {
        self.engine.take_over(database)
    }

    /// Copies a commit to a database from a file that is in no store.
    ///
    /// # Errors
    /// [`EngineError`].
    pub(crate) fn bring_from_file(
        &self,
        into: DatabaseId,
        file: DatabaseId,
        commit: &CommitHash,
    ) -> Result<(), EngineError> {
        self.engine.bring_from_file(into, file, std::slice::from_ref(commit))
    }

    /// Removes the marks of all nodes.
    ///
    /// # Errors
    /// Fails if the store fails.
    pub(crate) fn remove_marks(&self) -> anyhow::Result<()> {
        Ok(remove_marks(self.store.as_ref())?)
    }
}
