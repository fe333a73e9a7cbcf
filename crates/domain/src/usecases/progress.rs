//! How far imports are that run here. It is in memory only: people like to see it, nothing depends on it, and a row costs an addition.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::entities::Cell;
use crate::ports::{FormatError, RowSource};
use crate::values::OperationId;

/// Rows that imports have taken from their files, by operation.
#[derive(Default)]
pub(crate) struct Progress(Mutex<HashMap<OperationId, Arc<AtomicU64>>>);

impl Progress {
    fn all(&self) -> MutexGuard<'_, HashMap<OperationId, Arc<AtomicU64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows of an import that runs here.
    pub(super) fn rows(&self, id: OperationId) -> Option<u64> {
        self.all().get(&id).map(|rows| rows.load(Ordering::Relaxed))
    }

    /// The same source, whose rows are counted from zero until it is dropped.
    pub(super) fn counting<'a>(&'a self, id: OperationId, source: &'a mut dyn RowSource) -> Counting<'a> {
        let rows = Arc::new(AtomicU64::new(0));
        self.all().insert(id, Arc::clone(&rows));
        Counting { progress: self, id, source, rows }
    }
}

/// A source whose rows are counted.
pub(super) struct Counting<'a> {
    progress: &'a Progress,
    id: OperationId,
    source: &'a mut dyn RowSource,
    rows: Arc<AtomicU64>,
}

impl RowSource for Counting<'_> {
    fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError> {
        let next = self.source.next(row);
        if let Ok(Some(_)) = next {
            self.rows.fetch_add(1, Ordering::Relaxed);
        }
        next
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.progress.all().remove(&self.id);
    }
}
