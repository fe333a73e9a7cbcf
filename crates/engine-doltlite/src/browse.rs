//! Reads pages of rows of a table or view. The statement is internal, but the statement of a view is untrusted, so both
//! run under the guard.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use branchyard_domain::ports::{
    Column, EngineError, ReadQuery, RowSink, RowTest, Selected, Selection, SqlFailure, ValueRef,
};
use branchyard_sqlite_lexer::quote_name;

use crate::connection::Connection;
use crate::diff::TableSide;
use crate::engine::DoltliteEngine;
use crate::read::{read, read_with};
use crate::sql::errors;

mod column_values;
mod keyless_sink;
mod order;

pub(crate) use column_values::column_values;
use keyless_sink::KeylessSink;
use order::ScanOrder;

pub(crate) fn rows(
    engine: &DoltliteEngine,
    connection: &Connection,
    wanted: &Selection<'_>,
    sink: &mut dyn RowSink,
) -> Result<Selected, EngineError> {
    let fault = |error| errors::fault("find a table", error);
    let found = TableSide::find(connection, wanted.table).map_err(fault)?;
    let table = found.ok_or_else(|| EngineError::NoSuchTable(wanted.table.to_owned()))?;
    let order = ScanOrder::of(connection, &table, wanted).map_err(fault)?;
    let tests = conditions(wanted.tests)?;
    let began = Instant::now();
    let mut placed = KeylessSink::new(sink, &order, wanted);
    for part in order.parts(wanted.after)? {
        let conditions: Vec<&str> = tests.iter().chain(&part.condition).map(String::as_str).collect();
        let sql = format!(
            "SELECT {}* FROM {}{}{} LIMIT {}",
            order.selected(),
            quote_name(&table.name),
            all_of(&conditions),
            order.clause(),
            placed.looked_at(),
        );
        let left = wanted.timeout.saturating_sub(began.elapsed()).max(Duration::from_millis(1));
        let query = ReadQuery { sql: &sql, timeout: left, canceled: wanted.canceled.clone() };
        read_with(engine, connection, &query, &part.values, &mut placed)?;
        if placed.is_full() {
            break;
        }
    }
    Ok(placed.selected)
}

pub(crate) fn count(
    engine: &DoltliteEngine,
    connection: &Connection,
    table: &str,
    tests: &[RowTest],
    timeout: Duration,
) -> Result<u64, EngineError> {
    let found = TableSide::find(connection, table).map_err(|error| errors::fault("find a table", error))?;
    let table = found.ok_or_else(|| EngineError::NoSuchTable(table.to_owned()))?;
    let tests = conditions(tests)?;
    let tests: Vec<&str> = tests.iter().map(String::as_str).collect();
    let sql = format!("SELECT count(*) FROM {}{}", quote_name(&table.name), all_of(&tests));
    let mut counted = RowCount(0);
    read(engine, connection, &ReadQuery::new(&sql, timeout), &mut counted)?;
    Ok(counted.0)
}

/// A sink for the result of a count.
struct RowCount(u64);

impl RowSink for RowCount {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        if let Some(ValueRef::Integer(count)) = row.first() {
            self.0 = u64::try_from(*count).unwrap_or_default();
        }
        ControlFlow::Break(())
    }
}

/// Returns ` WHERE …` with all conditions, or an empty string if there are none.
fn all_of(conditions: &[&str]) -> String {
    if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) }
}

/// Returns the conditions of all tests.
fn conditions(tests: &[RowTest]) -> Result<Vec<String>, EngineError> {
    let refused = || EngineError::Sql {
        failure: SqlFailure::Engine("a value to look for holds a NUL character".to_owned()),
        statement: 1,
    };
    RowTest::conditions(tests).ok_or_else(refused)
}
