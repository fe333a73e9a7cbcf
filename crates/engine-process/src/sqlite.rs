//! Tables of untrusted SQLite files, read by workers.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{CancellationToken, FormatError, SqliteFileRows, SqliteFileTable, SqliteFiles};
use branchyard_domain::values::DatabaseId;
use branchyard_engine_doltlite::{CellBatch, Temporary, spool};
use uuid::Uuid;

use crate::call::{Bounds, Ends, Failed};
use crate::engine::ProcessEngine;
use crate::messages::Call;
use crate::process::Access;
use crate::wire::Wire;
use crate::wire::domain::TableShape;

/// The database of workers that read SQLite files, which belong to none.
const NO_DATABASE: DatabaseId = DatabaseId::from_uuid(Uuid::nil());

/// A table of a spooled SQLite file.
#[derive(Debug, Clone)]
struct ProcessSqliteTable {
    engine: Arc<ProcessEngine>,
    file: Arc<Temporary>,
    wanted: String,
    deadline: Instant,
    shape: TableShape,
}

/// Reads SQLite files with the workers of an engine.
#[derive(Debug, Clone)]
pub struct ProcessSqliteFiles(pub Arc<ProcessEngine>);

impl SqliteFiles for ProcessSqliteFiles {
    fn open_sqlite(
        &self,
        file: &mut dyn Read,
        table: &str,
        timeout: Duration,
    ) -> Result<Box<dyn SqliteFileTable>, FormatError> {
        Ok(Box::new(ProcessSqliteTable::open(&self.0, file, table, timeout)?))
    }
}

impl SqliteFileTable for ProcessSqliteTable {
    fn columns(&self) -> &[String] {
        &self.shape.columns
    }

    fn primary_key(&self) -> &[String] {
        &self.shape.primary_key
    }

    fn rows(&self) -> Result<Box<dyn SqliteFileRows>, FormatError> {
        Ok(Box::new(self.read()?))
    }
}

impl ProcessSqliteTable {
    /// Spools a file, and finds its table.
    fn open(
        engine: &Arc<ProcessEngine>,
        file: &mut dyn Read,
        table: &str,
        timeout: Duration,
    ) -> Result<Self, FormatError> {
        let temporary = engine.files.temporary();
        spool(file, temporary.path())?;
        let mut found = Self {
            engine: Arc::clone(engine),
            file: Arc::new(temporary),
            wanted: table.to_owned(),
            deadline: Instant::now() + timeout,
            shape: TableShape { columns: Vec::new(), primary_key: Vec::new() },
        };
        let call = Call::InspectSqlite { table: table.to_owned(), timeout: found.left() };
        found.shape = found.run(&call, &mut Ends::default())?;
        Ok(found)
    }

    /// Starts to read the table from its first row.
    fn read(&self) -> Result<ProcessSqliteRows, FormatError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let table = self.clone();
        let reader = thread::Builder::new().name("sqlite-import".into()).spawn(move || {
            let call = Call::ReadSqlite { table: table.wanted.clone(), timeout: table.left() };
            let width = table.shape.columns.len();
            let mut cells = |batch: CellBatch| {
                // A worker that sends other rows than it announced is not believed.
                let fits = batch.iter().all(|row| row.len() == width);
                fits && sender.send(Ok(batch)).is_ok()
            };
            if let Err(error) = table.run::<()>(&call, &mut Ends { cells: Some(&mut cells), ..Ends::default() }) {
                // Sending fails if the receiver was dropped before the last row; the error is not needed then.
                let _ = sender.send(Err(error));
            }
        });
        let reader = reader.map_err(FormatError::Io)?;
        Ok(ProcessSqliteRows { receiver: Some(receiver), batch: Vec::new().into_iter(), reader: Some(reader) })
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Runs a call on a worker of its own.
    fn run<T: Wire>(&self, call: &Call, ends: &mut Ends<'_>) -> Result<T, FormatError>
    where
        Result<T, FormatError>: Wire,
    {
        let fault = |error: branchyard_domain::ports::EngineError| FormatError::Io(std::io::Error::other(error));
        let file = File::open(self.file.path()).map_err(FormatError::Io)?;
        let pool = &self.engine.pool;
        let borrowed = pool.take_blank_for(self.file.path(), NO_DATABASE, Access::Read, false);
        let mut borrowed = borrowed.map_err(fault)?;
        borrowed.worker().is_spent = true;
        let bounds = Bounds { limit: Some(self.left()), canceled: CancellationToken::default() };
        let outcome = self.engine.run(&mut borrowed, NO_DATABASE, call, &[file.as_fd()], &bounds, ends);
        outcome.result.unwrap_or_else(|failed| {
            Err(match failed {
                Failed::Overdue(_) | Failed::Canceled => FormatError::Io(std::io::ErrorKind::TimedOut.into()),
                Failed::Ended | Failed::Broke(_) => {
                    tracing::error!(?failed, "a SQLite file broke the process that read it");
                    FormatError::File("the SQLite file broke the process that read it".into())
                }
                Failed::NoMemory => FormatError::Io(std::io::ErrorKind::OutOfMemory.into()),
                Failed::Io(error) => FormatError::Io(error),
            })
        })
    }
}

/// The rows of a table, read ahead by a thread that ends when this value is dropped.
#[derive(Debug)]
struct ProcessSqliteRows {
    receiver: Option<Receiver<Result<CellBatch, FormatError>>>,
    batch: std::vec::IntoIter<Vec<Cell>>,
    reader: Option<JoinHandle<()>>,
}

impl SqliteFileRows for ProcessSqliteRows {
    fn next_row(&mut self) -> Result<Option<Vec<Cell>>, FormatError> {
        loop {
            if let Some(row) = self.batch.next() {
                return Ok(Some(row));
            }
            let Some(receiver) = &self.receiver else { return Ok(None) };
            match receiver.recv() {
                Ok(Ok(batch)) => self.batch = batch.into_iter(),
                Ok(Err(error)) => {
                    self.receiver = None;
                    return Err(error);
                }
                Err(mpsc::RecvError) => {
                    self.receiver = None;
                    if let Some(Err(_)) = self.reader.take().map(JoinHandle::join) {
                        return Err(FormatError::Io(std::io::Error::other("the reader of a SQLite file panicked")));
                    }
                }
            }
        }
    }
}

impl Drop for ProcessSqliteRows {
    fn drop(&mut self) {
        // Dropping the receiver ends the reader.
        self.receiver = None;
        if let Some(reader) = self.reader.take() {
            // A panic of the thread was reported when it happened.
            drop(reader.join());
        }
    }
}
