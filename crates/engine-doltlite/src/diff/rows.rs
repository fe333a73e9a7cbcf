//! Finds the changed rows of a table, by the method that suits the table.

use branchyard_domain::entities::{Change, RowChange};
use branchyard_domain::ports::{ChangedRows, EngineError, RowPage};
use branchyard_domain::values::{CommitHash, DatabaseId};

use super::side::TableSide;
use super::{engines, sorted};
use crate::cells::NamedCells;
use crate::engine::DoltliteEngine;

pub(crate) fn changed_rows(
    engine: &DoltliteEngine,
    database: DatabaseId,
    (from, to): (&CommitHash, &CommitHash),
    table: &str,
    page: &RowPage,
) -> Result<ChangedRows, EngineError> {
    let side = |at: &CommitHash| {
        let timeout = engine.options.diff_timeout;
        engine.reading_within(timeout, database, at, "find a table", |connection| TableSide::find(connection, table))
    };
    let (old, new) = (side(from)?, side(to)?);
    let rows_of = |at: &CommitHash, side: &TableSide, change: Change| {
        engine.reading_within(engine.options.diff_timeout, database, at, "read changed rows", |connection| {
            let (rows, more) = side.rows(connection, page)?;
            let rows = rows.into_iter().map(|(key, row)| alone(&side.name, change, key, row)).collect();
            Ok(ChangedRows { rows, more })
        })
    };
    match (old, new) {
        (None, None) => Err(EngineError::NoSuchTable(table.to_owned())),
        (None, Some(new)) => rows_of(to, &new, Change::Added),
        (Some(old), None) => rows_of(from, &old, Change::Removed),
        (Some(old), Some(new)) if old.is_view || new.is_view => {
            let mut changes = ChangedRows::default();
            if !old.is_view {
                changes = rows_of(from, &old, Change::Removed)?;
            }
            if !new.is_view {
                changes = rows_of(to, &new, Change::Added)?;
            }
            Ok(changes)
        }
        (Some(old), Some(new)) if old.key.is_empty() || old.key != new.key || old.columns.len() > MOST_COLUMNS => {
            sorted::side_by_side(engine, database, (from, to), (&old, &new), page)
        }
        (Some(old), Some(new)) => engines::by_engine(engine, database, (from, to), (&old, &new), page),
    }
}

/// Maximum number of columns for which the engine's own comparison works.
const MOST_COLUMNS: usize = 990;

pub(super) fn alone(table: &str, change: Change, primary_key: NamedCells, row: NamedCells) -> RowChange {
    let (from, to) = if change == Change::Added { (None, Some(row)) } else { (Some(row), None) };
    RowChange { table: table.to_owned(), change, primary_key, from, to }
}
