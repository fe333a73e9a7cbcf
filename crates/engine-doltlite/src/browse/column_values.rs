//! Finds the most frequent values of a column.

use std::time::{Duration, Instant};

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{CollectedRows, ColumnQuery, ColumnValues, EngineError, ReadQuery};
use branchyard_sqlite_lexer::quote_name;

use super::{all_of, conditions};
use crate::connection::Connection;
use crate::diff::TableSide;
use crate::engine::DoltliteEngine;
use crate::read::read;
use crate::sql::errors;

pub(crate) fn column_values(
    engine: &DoltliteEngine,
    connection: &Connection,
    query: &ColumnQuery<'_>,
) -> Result<ColumnValues, EngineError> {
    let found = TableSide::find(connection, query.table).map_err(|error| errors::fault("find a table", error))?;
    let table = found.ok_or_else(|| EngineError::NoSuchTable(query.table.to_owned()))?;
    let tests = conditions(query.tests)?;
    let tests: Vec<&str> = tests.iter().map(String::as_str).collect();
    let rows = format!(
        "(SELECT {} AS v FROM {}{} LIMIT {})",
        quote_name(query.column),
        quote_name(&table.name),
        all_of(&tests),
        query.rows.min(i64::MAX.unsigned_abs()),
    );
    // Long values would fill the answer, and the sort of the engine.
    let short = format!("typeof(v) NOT IN ('null', 'blob') AND length(v) <= {}", ColumnValues::MAX_CHARACTERS);
    let began = Instant::now();
    let ask = |sql: &str| {
        let left = query.timeout.saturating_sub(began.elapsed()).max(Duration::from_millis(1));
        let mut answer = CollectedRows::default();
        read(engine, connection, &ReadQuery::new(sql, left), &mut answer).map(|_| answer.rows)
    };
    let whole = ask(&format!(
        "SELECT count(*), count(*) - count(v), min(v) FILTER (WHERE {short}), max(v) FILTER (WHERE {short}) FROM {rows}"
    ))?;
    let limit = query.limit.min(10_000);
    let found = ask(&format!(
        "SELECT v, count(*) AS n FROM {rows} WHERE {short} GROUP BY v ORDER BY n DESC, v LIMIT {}",
        limit + 1,
    ))?;
    let number = |cell: Option<&Cell>| match cell {
        Some(Cell::Integer(number)) => u64::try_from(*number).unwrap_or_default(),
        _ => 0,
    };
    let whole = whole.first().map(Vec::as_slice).unwrap_or_default();
    let range = match whole.get(2..) {
        Some([least, greatest]) if *least != Cell::Null => Some((least.clone(), greatest.clone())),
        _ => None,
    };
    let mut values: Vec<(Cell, u64)> = found
        .into_iter()
        .filter_map(|row| <[Cell; 2]>::try_from(row).ok())
        .map(|[value, count]| (value, number(Some(&count))))
        .collect();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = values.len() > limit;
    values.truncate(limit);
    Ok(ColumnValues { values, more, rows: number(whole.first()), nulls: number(whole.get(1)), range })
}
