//! Writes the tables of a commit as a file in SQLite's own format.
//!
//! The definitions come from users. They run in the new file under the guard for writes, so that the expressions of indexes and
//! generated columns may use bounded functions only. Rows go from one connection to the other, one at a time.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use branchyard_domain::entities::ObjectKind;
use branchyard_domain::ports::{Column, EngineError, RowSink, SqlFailure, SqliteExport, ValueRef};
use branchyard_domain::values::CommitHash;
use branchyard_sqlite_lexer::{quote_name, quote_names};
use rusqlite::types::{ToSqlOutput, ValueRef as Bound};
use rusqlite::{ErrorCode, Statement};

use crate::connection::{Connection, TimeLimit};
use crate::diff::TableSide;
use crate::engine::DoltliteEngine;
use crate::guard::GuardMode;
use crate::read::give_rows;
use crate::schema;
use crate::sql::errors;

const PAGE_BYTES: u64 = 4_096;

/// Writes the tables of the commit that `source` is at, with their rows, indexes, views and triggers, to the empty file at `path`.
pub(crate) fn write(
    engine: &DoltliteEngine,
    source: &Connection,
    at: &CommitHash,
    path: &Path,
    job: &SqliteExport,
) -> Result<(), EngineError> {
    if job.timeout.is_zero() {
        return Err(EngineError::TimedOut(0));
    }
    let fault = |error| errors::fault_at("read the definitions", at, error);
    let tables = schema::table_definitions(source).map_err(fault)?;
    let objects = schema::objects(source).map_err(fault)?;
    let until = Instant::now() + job.timeout;
    let writer = Connection::create_sqlite(path, engine.guard()).map_err(|error| failed(error, job))?;
    let timed = writer
        .limit_time_or(&engine.watchdog, job.timeout, job.canceled.clone())
        .map_err(|error| errors::fault("set a time limit", error))?;
    let stopped = |error| timed.ended().unwrap_or_else(|| failed(error, job));
    let pages = (job.max_bytes / PAGE_BYTES).max(1);
    // Setting the version, to what it is, writes the header, without which a file of no tables is empty.
    let begin = format!("PRAGMA max_page_count = {pages}; BEGIN; PRAGMA user_version = 0");
    writer.raw().execute_batch(&begin).map_err(stopped)?;
    let define = |sql: &str| {
        let _entered = writer.enter(GuardMode::Writer);
        timed.memory().spend(|| writer.raw().execute_batch(sql))
    };
    for (_, definition) in &tables {
        define(definition).map_err(stopped)?;
    }
    // Before the rows: an index that is made of all rows at once needs memory for them.
    for index in objects.iter().filter(|object| object.kind == ObjectKind::Index) {
        define(&index.create_statement).map_err(stopped)?;
    }
    for (table, _) in &tables {
        let left = until.saturating_duration_since(Instant::now());
        copy(engine, source, at, table, &Target { writer: &writer, timed: &timed, job, left })?;
    }
    for kind in [ObjectKind::View, ObjectKind::Trigger] {
        for object in objects.iter().filter(|object| object.kind == kind) {
            define(&object.create_statement).map_err(stopped)?;
        }
    }
    timed.memory().spend(|| writer.raw().execute_batch("COMMIT")).map_err(stopped)
}

/// Copies a new file to its receiver.
pub(crate) fn hand_over(path: &Path, mut into: &std::fs::File) -> Result<(), EngineError> {
    let copied = std::fs::File::open(path).and_then(|mut file| io::copy(&mut file, &mut into));
    copied.map(drop).map_err(|error| EngineError::Unavailable(format!("copy a SQLite file: {error}")))
}

struct Target<'a> {
    writer: &'a Connection,
    timed: &'a TimeLimit<'a>,
    job: &'a SqliteExport,
    left: Duration,
}

fn copy(
    engine: &DoltliteEngine,
    source: &Connection,
    at: &CommitHash,
    table: &str,
    target: &Target<'_>,
) -> Result<(), EngineError> {
    let fault = |error| errors::fault_at("read a table", at, error);
    let found = TableSide::find(source, table).map_err(fault)?;
    let side = found.ok_or_else(|| EngineError::NoSuchTable(table.to_owned()))?;
    let columns = schema::stored_columns(source, table).map_err(fault)?;
    let (names, name) = (quote_names(columns.iter().map(String::as_str)), quote_name(table));
    let reading = source.limit_time_or(&engine.watchdog, target.left, target.job.canceled.clone()).map_err(fault)?;
    let memory = reading.memory();
    let select = format!("SELECT {names} FROM {name} ORDER BY {}", side.order().join(", "));
    let mut statement = memory.spend(|| source.raw().prepare(&select)).map_err(fault)?;
    let marks = vec!["?"; columns.len()].join(", ");
    let insert = format!("INSERT INTO {name} ({names}) VALUES ({marks})");
    let _entered = target.writer.enter(GuardMode::Writer);
    let stopped = |error| target.timed.ended().unwrap_or_else(|| failed(error, target.job));
    let prepared = target.timed.memory().spend(|| target.writer.raw().prepare(&insert)).map_err(stopped)?;
    let mut inserts = Inserts { statement: prepared, timed: target.timed, failure: None };
    let given = give_rows(&mut statement, columns.len(), &reading, memory, &mut inserts);
    if let Some(error) = inserts.failure {
        return Err(stopped(error));
    }
    given.map_err(|error| reading.ended().unwrap_or_else(|| fault(error)))
}

/// Inserts rows into the new file.
struct Inserts<'a> {
    statement: Statement<'a>,
    timed: &'a TimeLimit<'a>,
    failure: Option<rusqlite::Error>,
}

impl Inserts<'_> {
    fn insert(&mut self, row: &[ValueRef<'_>]) -> rusqlite::Result<()> {
        for (at, value) in row.iter().enumerate() {
            self.statement.raw_bind_parameter(at + 1, ToSqlOutput::Borrowed(bound(*value)))?;
        }
        let Self { statement, timed, .. } = self;
        timed.memory().spend(|| statement.raw_execute()).map(drop)
    }
}

impl RowSink for Inserts<'_> {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.failure = self.insert(row).err();
        if self.failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn bound<'a>(value: ValueRef<'a>) -> Bound<'a> {
    match value {
        ValueRef::Null => Bound::Null,
        ValueRef::Integer(number) => Bound::Integer(number),
        ValueRef::Real(number) => Bound::Real(number),
        ValueRef::Text(bytes) => Bound::Text(bytes),
        ValueRef::Blob(bytes) => Bound::Blob(bytes),
    }
}

/// Converts the failure of a statement in the new file.
fn failed(error: rusqlite::Error, job: &SqliteExport) -> EngineError {
    let (code, text) = errors::parts(&error);
    match code.map(|code| code.code) {
        Some(ErrorCode::DiskFull) => refused(format!("the file would have more than {} bytes", job.max_bytes)),
        Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory) => errors::fault("write a SQLite file", error),
        _ => refused(format!("the definitions do not fit a SQLite file: {text}")),
    }
}

fn refused(text: String) -> EngineError {
    EngineError::Sql { failure: SqlFailure::Engine(text), statement: 1 }
}
