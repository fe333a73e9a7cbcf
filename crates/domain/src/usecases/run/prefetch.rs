//! Reading and converting import rows on a separate thread, ahead of the engine, which is busy inserting them.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread;

use crate::entities::Cell;
use crate::ports::{FormatError, ImportFile, RowSource, TargetColumn};

/// Limits at which a batch is full: rows, and bytes of their cells.
const ROWS: usize = 1_024;
const BYTES: usize = 256 << 10;
/// Number of batches: one being filled, one being emptied, and the others in between.
const BATCHES: usize = 4;
/// Stack of the reading thread in bytes, as large as that of worker threads, because converters of nested formats recurse.
const STACK: usize = 8 << 20;

/// Rows, and the line each begins on. Batches are recycled, so that their memory is freed by the thread that allocated it.
#[derive(Default)]
struct RowBatch {
    rows: Vec<(u64, Vec<Cell>)>,
    filled: usize,
}

/// A message of the reading thread.
enum PrefetchMessage {
    Rows(RowBatch),
    End,
    Failed(FormatError),
}

/// Runs `work` on the rows of a file that a separate thread reads ahead.
pub(super) fn ahead<T>(
    file: Box<dyn ImportFile + '_>,
    targets: &[TargetColumn],
    work: impl FnOnce(&mut dyn RowSource) -> T,
) -> T {
    let (give, take) = mpsc::sync_channel(BATCHES);
    let (hand_back, empty) = mpsc::channel();
    thread::scope(|scope| {
        // The remaining batch is the one that `Ahead` starts with.
        (1..BATCHES).for_each(|_| hand_back.send(RowBatch::default()).unwrap_or_default());
        let reader = thread::Builder::new().name("import".to_owned()).stack_size(STACK);
        // If the thread cannot be started, `give` is dropped, and `Ahead::next` reports an error.
        let _ = reader.spawn_scoped(scope, move || match file.rows(targets) {
            Ok(mut rows) => read(rows.as_mut(), &empty, &give),
            // Sending fails if `work` has ended.
            Err(error) => drop(give.send(PrefetchMessage::Failed(error))),
        });
        work(&mut Ahead { take, hand_back, batch: RowBatch::default(), next: 0 })
    })
}

/// Reads until the file ends or `work` has ended.
fn read(source: &mut dyn RowSource, empty: &Receiver<RowBatch>, give: &SyncSender<PrefetchMessage>) {
    while let Ok(mut batch) = empty.recv() {
        let ended = fill(source, &mut batch);
        if give.send(PrefetchMessage::Rows(batch)).is_err() {
            return;
        }
        if let Some(end) = ended {
            // Sending fails if `work` has ended.
            let _ = give.send(end);
            return;
        }
    }
}

/// Fills a batch. Returns how the file ended, if it did.
fn fill(source: &mut dyn RowSource, batch: &mut RowBatch) -> Option<PrefetchMessage> {
    let mut bytes = 0;
    batch.filled = 0;
    while batch.filled < ROWS && bytes < BYTES {
        if batch.filled == batch.rows.len() {
            batch.rows.push((0, Vec::new()));
        }
        let Some((line, row)) = batch.rows.get_mut(batch.filled) else { break };
        match source.next(row) {
            Ok(Some(begins)) => *line = begins,
            Ok(None) => return Some(PrefetchMessage::End),
            Err(error) => return Some(PrefetchMessage::Failed(error)),
        }
        bytes += row.iter().map(|cell| size_of::<Cell>() + cell.bytes()).sum::<usize>();
        batch.filled += 1;
    }
    None
}

/// The rows, in the order in which the thread reads them.
struct Ahead {
    take: Receiver<PrefetchMessage>,
    hand_back: Sender<RowBatch>,
    batch: RowBatch,
    next: usize,
}

impl RowSource for Ahead {
    fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError> {
        while self.next == self.batch.filled {
            match self.take.recv() {
                Ok(PrefetchMessage::Rows(batch)) => {
                    // Sending fails if the thread has read the whole file.
                    let _ = self.hand_back.send(std::mem::replace(&mut self.batch, batch));
                    self.next = 0;
                }
                Ok(PrefetchMessage::End) => return Ok(None),
                Ok(PrefetchMessage::Failed(error)) => return Err(error),
                Err(_) => return Err(FormatError::Io(io::Error::other("the thread that reads the file ended"))),
            }
        }
        let Some((line, next)) = self.batch.rows.get_mut(self.next) else { return Ok(None) };
        self.next += 1;
        std::mem::swap(row, next);
        Ok(Some(*line))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{BATCHES, BYTES, ROWS};
    use crate::entities::Cell;
    use crate::ports::{FormatError, ImportFile, InferredColumn, RowSource, TargetColumn};

    /// A file of `last` rows, followed by the result of `end`. Each row holds its number, a blob of `bytes` bytes and
    /// `cells` nulls.
    #[derive(Clone)]
    struct Numbers {
        read: Arc<AtomicUsize>,
        last: usize,
        bytes: usize,
        cells: usize,
        end: fn() -> Result<Option<u64>, FormatError>,
    }

    impl ImportFile for Numbers {
        fn columns(&self) -> &[InferredColumn] {
            &[]
        }

        fn rows(&self, _: &[TargetColumn]) -> Result<Box<dyn RowSource + '_>, FormatError> {
            Ok(Box::new(self.clone()))
        }
    }

    impl RowSource for Numbers {
        fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError> {
            if self.read() == self.last {
                return (self.end)();
            }
            let next = self.read.fetch_add(1, Ordering::SeqCst) + 1;
            row.clear();
            row.push(Cell::Integer(next as i64));
            row.push(Cell::Blob(vec![0; self.bytes]));
            row.resize(2 + self.cells, Cell::Null);
            Ok(Some(next as u64 + 1))
        }
    }

    impl Numbers {
        fn read(&self) -> usize {
            self.read.load(Ordering::SeqCst)
        }
    }

    fn numbers(last: usize) -> Numbers {
        Numbers { read: Arc::default(), last, bytes: 0, cells: 0, end: || Ok(None) }
    }

    fn ahead<T>(file: &Numbers, work: impl FnOnce(&mut dyn RowSource) -> T) -> T {
        super::ahead(Box::new(file.clone()), &[], work)
    }

    /// Takes all rows, checks their order, and returns their number and how the file ended.
    fn take(rows: &mut dyn RowSource) -> (usize, Result<(), FormatError>) {
        let (mut row, mut taken) = (Vec::new(), 0);
        loop {
            match rows.next(&mut row) {
                Ok(Some(line)) => {
                    taken += 1;
                    assert_eq!((line, &row[0]), (taken as u64 + 1, &Cell::Integer(taken as i64)));
                }
                Ok(None) => return (taken, Ok(())),
                Err(error) => return (taken, Err(error)),
            }
        }
    }

    #[test]
    fn all_rows_come_in_their_order() {
        for last in [0, 1, ROWS - 1, ROWS, ROWS + 1, 10 * ROWS] {
            let (taken, end) = ahead(&numbers(last), take);
            assert!(end.is_ok());
            assert_eq!(taken, last);
        }
    }

    #[test]
    fn an_error_comes_after_the_rows_before_it() {
        let end = || Err(FormatError::File("it breaks off".to_owned()));
        let (taken, end) = ahead(&Numbers { end, ..numbers(ROWS + 2) }, take);
        assert_eq!(taken, ROWS + 2);
        assert!(matches!(end, Err(FormatError::File(_))));
    }

    #[test]
    fn nobody_reads_on_when_no_more_is_wanted() {
        let source = numbers(1_000 * ROWS);
        ahead(&source, |rows| assert_eq!(rows.next(&mut Vec::new()).unwrap(), Some(2)));
        assert!(source.read() <= BATCHES * ROWS, "{} rows", source.read());
    }

    #[test]
    fn large_rows_are_read_ahead_by_their_bytes() {
        let source = Numbers { bytes: BYTES / 2, ..numbers(1_000) };
        ahead(&source, |rows| assert_eq!(rows.next(&mut Vec::new()).unwrap(), Some(2)));
        assert!(source.read() <= 2 * BATCHES, "{} rows", source.read());
    }

    #[test]
    fn cells_count_too() {
        let source = Numbers { cells: BYTES / size_of::<Cell>() / 2, ..numbers(1_000) };
        ahead(&source, |rows| assert_eq!(rows.next(&mut Vec::new()).unwrap(), Some(2)));
        assert!(source.read() <= 2 * BATCHES, "{} rows", source.read());
    }

    #[test]
    fn a_thread_that_panics_is_no_end_of_the_file() {
        let source = Numbers { end: || panic!("a test wants it"), ..numbers(3) };
        let mut end = Ok(());
        let caught = catch_unwind(AssertUnwindSafe(|| ahead(&source, |rows| end = take(rows).1)));
        assert!(caught.is_err());
        assert!(matches!(end, Err(FormatError::Io(_))));
    }
}
