//! Tables of untrusted SQLite files, read by workers.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_domain::ports::{CancellationToken, FormatError, SqliteFileRows, SqliteFileTable, SqliteFiles};
use branchyard_domain::values::DatabaseId;
use branchyard_engine_doltlite::{CellBatch, SqliteRows, Temporary, spool};
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
    fn sqlite_tables(&self, file: &mut dyn Read, timeout: Duration) -> Result<Vec<String>, FormatError> {
        let spooled = ProcessSqliteTable::spool(&self.0, file, "", timeout)?;
        spooled.run(&Call::SqliteTables { timeout: spooled.left() }, &mut Ends::default())
    }

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
        let table = self.clone();
        let rows = SqliteRows::read_ahead(move |sink| {
            let call = Call::ReadSqlite { table: table.wanted.clone(), timeout: table.left() };
            let width = table.shape.columns.len();
            // A worker that sends other rows than it announced is not believed.
            let mut cells = |batch: CellBatch| batch.iter().all(|row| row.len() == width) && sink(batch);
            table.run(&call, &mut Ends { cells: Some(&mut cells), ..Ends::default() })
        })?;
        Ok(Box::new(rows))
    }
}

impl ProcessSqliteTable {
    /// Spools a file.
    fn spool(
        engine: &Arc<ProcessEngine>,
        file: &mut dyn Read,
        table: &str,
        timeout: Duration,
    ) -> Result<Self, FormatError> {
        let temporary = engine.files.temporary();
        spool(file, temporary.path())?;
        Ok(Self {
            engine: Arc::clone(engine),
            file: Arc::new(temporary),
            wanted: table.to_owned(),
            deadline: Instant::now() + timeout,
            shape: TableShape { columns: Vec::new(), primary_key: Vec::new() },
        })
    }

    /// Spools a file, and finds its table.
    fn open(
        engine: &Arc<ProcessEngine>,
        file: &mut dyn Read,
        table: &str,
        timeout: Duration,
    ) -> Result<Self, FormatError> {
        let mut found = Self::spool(engine, file, table, timeout)?;
        let call = Call::InspectSqlite { table: table.to_owned(), timeout: found.left() };
        found.shape = found.run(&call, &mut Ends::default())?;
        Ok(found)
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
        let bounds = Bounds { limit: self.left(), canceled: CancellationToken::default() };
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
