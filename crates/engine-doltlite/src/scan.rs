//! Reads all rows of a table at a commit, in the order of the table's key.

use std::time::Duration;

use branchyard_domain::ports::{EngineError, RowSink, TableScan};
use branchyard_domain::values::CommitHash;
use branchyard_sqlite_lexer::{quote_name, quote_names};

use crate::connection::Connection;
use crate::diff::TableSide;
use crate::engine::DoltliteEngine;
use crate::read::{describe, give_rows};
use crate::sql::errors;

pub(crate) fn scan(
    engine: &DoltliteEngine,
    connection: &Connection,
    at: &CommitHash,
    scan: &TableScan<'_>,
    sink: &mut dyn RowSink,
) -> Result<Duration, EngineError> {
    let fault = |error| errors::fault_at("read a table", at, error);
    let found = TableSide::find(connection, scan.table).map_err(fault)?.filter(|table| !table.is_view);
    let table = found.ok_or_else(|| EngineError::NoSuchTable(scan.table.to_owned()))?;
    let sql = format!(
        "SELECT {} FROM {} ORDER BY {}",
        quote_names(table.columns.iter().map(String::as_str)),
        quote_name(&table.name),
        table.order().join(", ")
    );
    let timed = connection.limit_time_or(&engine.watchdog, scan.timeout, scan.canceled.clone()).map_err(fault)?;
    let memory = timed.memory();
    let mut statement = memory.spend(|| connection.raw().prepare(&sql)).map_err(fault)?;
    let columns = describe(&statement);
    if timed.stopped(|| sink.columns(&columns)).is_break() {
        return Ok(timed.remaining());
    }
    give_rows(&mut statement, columns.len(), &timed, memory, sink)
        .map(|_| timed.remaining())
        .map_err(|error| timed.ended().unwrap_or_else(|| fault(error)))
}
