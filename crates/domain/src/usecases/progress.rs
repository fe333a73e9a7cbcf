//! How far imports are that run here. It is in memory only: people like to see it, nothing depends on it, and a row costs an addition.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::entities::Cell;
use crate::ports::{FormatError, RowSource};
use crate::values::OperationId;

/// Rows that imports have taken from their files, by operation.
#[derive(Default)]
pub(crate) struct ImportProgress(Mutex<HashMap<OperationId, Arc<AtomicU64>>>);

impl ImportProgress {
    fn all(&self) -> MutexGuard<'_, HashMap<OperationId, Arc<AtomicU64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows of an import that runs here.
    pub(super) fn rows(&self, id: OperationId) -> Option<u64> {
        self.all().get(&id).map(|rows| rows.load(Ordering::Relaxed))
    }

    /// Counts the rows of an import from zero until it is dropped.
    pub(super) fn begin(&self, id: OperationId) -> RowCounter<'_> {
        let rows = Arc::new(AtomicU64::new(0));
        self.all().insert(id, Arc::clone(&rows));
        RowCounter { progress: self, id, rows }
    }
}

/// The count of an import that runs.
pub(super) struct RowCounter<'a> {
    progress: &'a ImportProgress,
    id: OperationId,
    rows: Arc<AtomicU64>,
}

impl RowCounter<'_> {
    /// The same source, whose rows are counted.
    pub(super) fn of<'a>(&'a self, source: &'a mut dyn RowSource) -> impl RowSource + 'a {
        CountedRows { rows: &self.rows, source }
    }
}

impl Drop for RowCounter<'_> {
    fn drop(&mut self) {
        self.progress.all().remove(&self.id);
    }
}

struct CountedRows<'a> {
    rows: &'a AtomicU64,
    source: &'a mut dyn RowSource,
}

impl RowSource for CountedRows<'_> {
    fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError> {
        let next = self.source.next(row);
        if let Ok(Some(_)) = next {
            self.rows.fetch_add(1, Ordering::Relaxed);
        }
        next
    }
}
