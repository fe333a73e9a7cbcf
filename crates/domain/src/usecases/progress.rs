//! Progress of the imports that run in this process. Kept in memory only, because it is merely displayed; each row costs one
//! addition.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::entities::Cell;
use crate::ports::{FormatError, RowSource};
use crate::values::OperationId;

/// The number of rows read by each running import.
#[derive(Default)]
pub(crate) struct ImportProgress(Mutex<HashMap<OperationId, Arc<AtomicU64>>>);

impl ImportProgress {
    fn all(&self) -> MutexGuard<'_, HashMap<OperationId, Arc<AtomicU64>>> {
        self.0.lock()
    }

    /// Returns the number of rows read by an import, or `None` unless it runs in this process.
    pub(super) fn rows(&self, id: OperationId) -> Option<u64> {
        self.all().get(&id).map(|rows| rows.load(Ordering::Relaxed))
    }

    /// Starts to count the rows of an import from zero. The count ends when the counter is dropped.
    pub(super) fn begin(&self, id: OperationId) -> RowCounter<'_> {
        let rows = Arc::new(AtomicU64::new(0));
        self.all().insert(id, Arc::clone(&rows));
        RowCounter { progress: self, id, rows }
    }
}

/// The row counter of a running import.
pub(super) struct RowCounter<'a> {
    progress: &'a ImportProgress,
    id: OperationId,
    rows: Arc<AtomicU64>,
}

impl RowCounter<'_> {
    /// Wraps a source so that its rows are counted.
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
