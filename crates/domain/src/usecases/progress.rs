//! Progress of the imports that run in this process. Kept in memory only, because it is merely displayed; each row, and each read of the
//! file, costs one addition.

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::entities::Cell;
use crate::ports::{FormatError, ReadSeek, RowSource};
use crate::values::{OperationId, Timestamp};

/// How long a stage has to take before its rate says something about its rest.
const RATED_AFTER_MICROS: i64 = 1_000_000;

/// The part of an operation that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProgressStage {
    /// The file is read for its columns and its errors. Counted in bytes.
    CheckingFile,
    /// The rows of the file are written. Counted in rows.
    WritingRows,
    /// The statements of a script run. Counted in bytes of the script.
    RunningScript,
}

/// How far a running operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OperationProgress {
    /// The stage.
    pub stage: ProgressStage,
    /// The amount that is done, in the unit of the stage.
    pub done: u64,
    /// The whole amount, if it is known.
    pub total: Option<u64>,
    /// When the stage began.
    pub began_at: Timestamp,
}

impl OperationProgress {
    /// Returns the average rate of the stage per second, once it has taken a second.
    pub fn per_second(&self, now: Timestamp) -> Option<u64> {
        let micros = now.as_micros().saturating_sub(self.began_at.as_micros());
        let micros = u64::try_from(micros).ok().filter(|_| micros >= RATED_AFTER_MICROS)?;
        let rate = u128::from(self.done) * 1_000_000 / u128::from(micros);
        u64::try_from(rate).ok()
    }

    /// Returns the seconds that the rest of the stage takes at this rate, rounded up. `None` if the rate or the whole amount is not known.
    pub fn seconds_left(&self, now: Timestamp) -> Option<u64> {
        let rate = self.per_second(now).filter(|rate| *rate > 0)?;
        Some(self.total?.saturating_sub(self.done).div_ceil(rate))
    }
}

/// The progress of each running import.
#[derive(Default)]
pub(crate) struct ImportProgress(Mutex<HashMap<OperationId, RunningStage>>);

#[derive(Clone)]
struct RunningStage {
    stage: ProgressStage,
    total: Option<u64>,
    began_at: Timestamp,
    done: Arc<AtomicU64>,
}

impl ImportProgress {
    fn all(&self) -> MutexGuard<'_, HashMap<OperationId, RunningStage>> {
        self.0.lock()
    }

    /// Returns how far an import is, or `None` unless it runs in this process.
    pub(super) fn of(&self, id: OperationId) -> Option<OperationProgress> {
        let RunningStage { stage, total, began_at, done } = self.all().get(&id)?.clone();
        let done = done.load(Ordering::Relaxed);
        // A file that is not read in its order may be read in part again.
        Some(OperationProgress { stage, done: done.min(total.unwrap_or(done)), total, began_at })
    }

    /// Begins a stage of an import, which counts from zero. The import has no progress any more when the counter is dropped.
    pub(super) fn begin(
        &self,
        id: OperationId,
        stage: ProgressStage,
        total: Option<u64>,
        began_at: Timestamp,
    ) -> StageCounter<'_> {
        let done = Arc::new(AtomicU64::new(0));
        self.all().insert(id, RunningStage { stage, total, began_at, done: Arc::clone(&done) });
        StageCounter { progress: self, id, done }
    }
}

/// The counter of a stage of a running import.
pub(super) struct StageCounter<'a> {
    progress: &'a ImportProgress,
    id: OperationId,
    done: Arc<AtomicU64>,
}

impl StageCounter<'_> {
    /// Wraps a source so that its rows are counted.
    pub(super) fn rows<'a>(&'a self, source: &'a mut dyn RowSource) -> impl RowSource + 'a {
        CountedRows { rows: &self.done, source }
    }

    /// Returns the counter of bytes, for [`CountedFile`].
    pub(super) fn bytes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }
}

impl Drop for StageCounter<'_> {
    fn drop(&mut self) {
        let mut all = self.progress.all();
        // The next stage may have begun.
        if all.get(&self.id).is_some_and(|running| Arc::ptr_eq(&running.done, &self.done)) {
            all.remove(&self.id);
        }
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

/// A file whose bytes are counted as they are read.
pub(super) struct CountedFile {
    bytes: Arc<AtomicU64>,
    file: Box<dyn ReadSeek>,
}

impl CountedFile {
    pub(super) fn new(file: Box<dyn ReadSeek>, bytes: Arc<AtomicU64>) -> Self {
        Self { bytes, file }
    }
}

impl Read for CountedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl Seek for CountedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::{ImportProgress, OperationProgress, ProgressStage};
    use crate::values::{OperationId, Timestamp};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn the_rate_and_the_rest_follow_from_what_is_done() {
        let progress =
            OperationProgress { stage: ProgressStage::WritingRows, done: 300, total: Some(1_000), began_at: at(10) };
        assert_eq!((progress.per_second(at(10)), progress.seconds_left(at(10))), (None, None), "too early");
        assert_eq!((progress.per_second(at(13)), progress.seconds_left(at(13))), (Some(100), Some(7)));
        assert_eq!(progress.per_second(at(9)), None, "the clock went back");
        let unknown = OperationProgress { total: None, ..progress };
        assert_eq!((unknown.per_second(at(13)), unknown.seconds_left(at(13))), (Some(100), None));
        let nothing = OperationProgress { done: 0, ..progress };
        assert_eq!((nothing.per_second(at(13)), nothing.seconds_left(at(13))), (Some(0), None));
        let over = OperationProgress { done: u64::MAX, total: Some(u64::MAX), ..progress };
        assert_eq!(over.seconds_left(at(13)), Some(0));
    }

    #[test]
    fn a_stage_follows_another_and_the_last_leaves_nothing() {
        let (all, id) = (ImportProgress::default(), OperationId::from_uuid(uuid::Uuid::from_u128(1)));
        assert_eq!(all.of(id), None);
        let checking = all.begin(id, ProgressStage::CheckingFile, Some(10), at(1));
        checking.bytes().fetch_add(25, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(all.of(id).unwrap().done, 10, "never more than there is");
        let writing = all.begin(id, ProgressStage::WritingRows, None, at(2));
        drop(checking);
        assert_eq!(all.of(id).unwrap().stage, ProgressStage::WritingRows);
        drop(writing);
        assert_eq!(all.of(id), None);
    }
}
