//! Previews of writes. Nothing of them reaches the store.

use branchyard_domain::ports::{EngineError, PreviewJob, PreviewPlace, Previewed};
use branchyard_domain::values::DatabaseId;

use crate::engine::{DurableEngine, RecordSource};

impl<S: RecordSource> DurableEngine<S> {
    /// Runs a preview in a private copy of the file, which any node can make: the file itself has to stay as the store has it. If a
    /// copy would take too long, the node that leads the database uses the file, and makes nothing of that durable.
    pub(crate) fn preview(&self, database: DatabaseId, job: &PreviewJob<'_>) -> Result<Previewed, EngineError> {
        let on_copy = PreviewJob { place: PreviewPlace::Copy, ..*job };
        match self.read(database, || self.inner().preview_write(database, &on_copy)) {
            Err(EngineError::Busy) if self.is_leading(database) => self.preview_in_file(database, job),
            previewed => previewed,
        }
    }

    fn preview_in_file(&self, database: DatabaseId, job: &PreviewJob<'_>) -> Result<Previewed, EngineError> {
        let entry = self.entry(database);
        let _call = entry.begin();
        let turn = entry.turn.try_lock_for(job.timeout).ok_or(EngineError::Busy)?;
        // The lease may have ended meanwhile.
        if !self.is_leading(database) {
            return Err(EngineError::Busy);
        }
        let in_file = PreviewJob { place: PreviewPlace::File, ..*job };
        let previewed = self.inner().preview_write(database, &in_file);
        drop(turn);
        previewed
    }
}
