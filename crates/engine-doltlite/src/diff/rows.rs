//! Finds the changed rows of a table, by the method that suits the table.

use branchyard_domain::entities::{Change, RowChange};
use branchyard_domain::ports::{ChangedRows, EngineError, RowPage};

use super::ends::Comparison;
use super::side::TableSide;
use super::{engines, sorted};
use crate::cells::NamedCells;

pub(crate) fn changed_rows(compared: &Comparison<'_>, table: &str, page: &RowPage) -> Result<ChangedRows, EngineError> {
    let Comparison { from, to, timeout, .. } = *compared;
    let side =
        |end| compared.reading_within(timeout, end, "find a table", |connection| TableSide::find(connection, table));
    let (old, new) = (side(from)?, side(to)?);
    let rows_of = |end, side: &TableSide, change: Change| {
        compared.reading_within(timeout, end, "read changed rows", |connection| {
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
        (Some(old), Some(new)) if needs_sorting(&old, &new) => sorted::side_by_side(compared, (&old, &new), page),
        (Some(old), Some(new)) => engines::by_engine(compared, (&old, &new), page),
    }
}

/// Returns `true` if the engine's own comparison cannot compare a table.
fn needs_sorting(old: &TableSide, new: &TableSide) -> bool {
    old.key.is_empty() || old.key != new.key || old.columns.len() > MOST_COLUMNS
}

/// Maximum number of columns for which the engine's own comparison works.
const MOST_COLUMNS: usize = 990;

pub(super) fn alone(table: &str, change: Change, primary_key: NamedCells, row: NamedCells) -> RowChange {
    let (from, to) = if change == Change::Added { (None, Some(row)) } else { (Some(row), None) };
    RowChange { table: table.to_owned(), change, primary_key, from, to }
}
