//! Runs one untrusted read statement at a commit.

use std::cell::Cell as Flag;
use std::ops::ControlFlow;

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{Column, EngineError, ReadQuery, ReadReport, RowSink, SqlFailure, ValueRef};
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::{Batch, Statement};

use crate::cells;
use crate::connection::{Connection, TimeLimit};
use crate::engine::DoltliteEngine;
use crate::guard::{GuardMode, StatementEffects};
use crate::memory::MemoryBudget;
use crate::sql::complexity;
use crate::sql::errors::{self, StatementFailure, StatementPosition};

pub(crate) fn read(
    engine: &DoltliteEngine,
    connection: &Connection,
    query: &ReadQuery<'_>,
    sink: &mut dyn RowSink,
) -> Result<ReadReport, EngineError> {
    read_with(engine, connection, query, &[], sink)
}

/// Runs `read` with values for the parameters of the statement.
pub(crate) fn read_with(
    engine: &DoltliteEngine,
    connection: &Connection,
    query: &ReadQuery<'_>,
    values: &[Cell],
    sink: &mut dyn RowSink,
) -> Result<ReadReport, EngineError> {
    let place = StatementPosition::all(query.sql, GuardMode::Reader);
    let timed = connection
        .limit_time_or(&engine.watchdog, query.timeout, query.canceled.clone())
        .map_err(|error| errors::fault("set a time limit", error))?;
    let has_rows = Flag::new(false);
    let mut once = SingleResultSink { sink, is_described: false, has_rows: &has_rows };
    let outcome = timed.with_room(
        |memory| {
            let _entered = connection.enter(GuardMode::Reader);
            run(connection, &place, values, &timed, memory, &mut once)
        },
        || has_rows.get(),
    );
    outcome.map_err(|failed| failed.unless_ended(timed.ended()).at(1))
}

/// Forwards the columns of a result to `sink` only once, although the statement may be restarted before its first row.
struct SingleResultSink<'a> {
    sink: &'a mut dyn RowSink,
    is_described: bool,
    has_rows: &'a Flag<bool>,
}

impl RowSink for SingleResultSink<'_> {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        if std::mem::replace(&mut self.is_described, true) {
            ControlFlow::Continue(())
        } else {
            self.sink.columns(columns)
        }
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.has_rows.set(true);
        self.sink.row(row)
    }
}

fn run(
    connection: &Connection,
    place: &StatementPosition<'_>,
    values: &[Cell],
    timed: &TimeLimit<'_>,
    memory: &MemoryBudget,
    sink: &mut dyn RowSink,
) -> Result<ReadReport, StatementFailure> {
    no_nul(place.whole)?;
    not_too_complex(place.text)?;
    let mut batch = Batch::new(connection.raw(), place.whole);
    let first = connection.preparing(place.whole, || memory.spend(|| batch.next()));
    let seen = connection.take_seen();
    let mut statement = match first {
        Ok(Some(statement)) => statement,
        Ok(None) => return Err(place.ends_early().into()),
        Err(error) => return Err(place.failed(error, &seen)),
    };
    if let Some(failure) = place.refused_by_first_word() {
        return Err(failure.into());
    }
    if !statement.readonly() {
        return Err(SqlFailure::NotARead.into());
    }
    match memory.spend(|| batch.next()) {
        Ok(None) => {}
        Ok(Some(_)) => return Err(SqlFailure::SeveralStatements.into()),
        Err(error) => {
            return Err(match place.failed(error, &StatementEffects::default()) {
                StatementFailure::Sql(failure) if !matches!(failure, SqlFailure::Syntax { .. }) => {
                    SqlFailure::SeveralStatements.into()
                }
                failed => failed,
            });
        }
    }
    for (at, value) in values.iter().enumerate() {
        let bound = statement.raw_bind_parameter(at + 1, cells::Param(value));
        bound.map_err(|error| place.failed(error, &seen))?;
    }
    let columns = describe(&statement);
    let named: usize = columns.iter().map(name_bytes).sum();
    if named > MOST_NAME_BYTES {
        let text = format!(
            "the names of the columns have {named} bytes, more than {MOST_NAME_BYTES}; give shorter ones with AS"
        );
        return Err(SqlFailure::Engine(text).into());
    }
    if timed.stopped(|| sink.columns(&columns)).is_continue() {
        give_rows(&mut statement, columns.len(), timed, memory, sink).map_err(|error| {
            place.failed(error, &StatementEffects { history: seen.history, ..connection.take_seen() })
        })?;
    }
    Ok(ReadReport { deterministic: !seen.volatile && !connection.depends_on_refs() })
}

/// Rejects a text that contains a NUL. The engine treats a NUL as the end of the text and would skip the rest silently.
pub(crate) fn no_nul(sql: &str) -> Result<(), SqlFailure> {
    match sql.find('\0') {
        Some(at) => Err(SqlFailure::Syntax { position: at + 2, near: "\0".into() }),
        None => Ok(()),
    }
}

/// Rejects a statement that is nested too deeply or passes too many paths to a JSON function.
///
/// The check runs before the engine prepares the statement, because most of preparing cannot be interrupted and its
/// time may grow exponentially with the nesting. A call of a JSON function cannot be interrupted either, and takes the
/// time of its whole document for each path.
pub(crate) fn not_too_complex(sql: &str) -> Result<(), SqlFailure> {
    if complexity::nesting(sql) > complexity::MAX_NESTING {
        let text = format!(
            "parentheses, subqueries and joins are nested more than {} deep; take parentheses out, or name the inner parts with WITH or CREATE VIEW",
            complexity::MAX_NESTING
        );
        return Err(SqlFailure::Engine(text));
    }
    if complexity::paths(sql) > complexity::MAX_PATHS {
        let text = format!(
            "a JSON function is called with more than {} paths; use several calls, nested or side by side",
            complexity::MAX_PATHS
        );
        return Err(SqlFailure::Engine(text));
    }
    Ok(())
}

/// Maximum size in bytes of the column names of a result, with the names of their tables and types. Every answer begins
/// with them.
const MOST_NAME_BYTES: usize = 1 << 20;

fn name_bytes(column: &Column) -> usize {
    column.name.len() + column.source_table.len() + column.declared_type.as_ref().map_or(0, String::len)
}

pub(crate) fn describe(statement: &Statement<'_>) -> Vec<Column> {
    let types = statement.columns();
    let sources = statement.columns_with_metadata();
    types
        .iter()
        .zip(&sources)
        .enumerate()
        .map(|(at, (typed, source))| Column {
            name: typed.name().to_owned(),
            declared_type: typed.decl_type().map(str::to_uppercase).filter(|declared| !declared.is_empty()),
            // Tables of modules have no column metadata; `false` is correct for them.
            is_primary_key: matches!(statement.column_metadata(at), Ok(Some((_, _, _, _, _, _, true, _)))),
            source_table: source.table_name().unwrap_or_default().to_owned(),
        })
        .collect()
}

pub(crate) fn give_rows(
    statement: &mut Statement<'_>,
    width: usize,
    timed: &TimeLimit<'_>,
    memory: &MemoryBudget,
    sink: &mut dyn RowSink,
) -> rusqlite::Result<()> {
    let mut rows = statement.raw_query();
    while let Some(row) = memory.spend(|| rows.next())? {
        let mut values: Vec<ValueRef<'_>> = Vec::with_capacity(width);
        for at in 0..width {
            values.push(cells::borrowed(row.get_ref(at)?));
        }
        if timed.stopped(|| sink.row(&values)).is_break() {
            break;
        }
    }
    Ok(())
}
