//! Conversions of values between the engine and the domain.

use branchyard_domain::entities::Cell;
use branchyard_domain::ports;
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};

/// Cells with the names of their columns.
pub(crate) type NamedCells = Vec<(String, Cell)>;

/// A [`Cell`] as a statement parameter.
pub(crate) struct Param<'a>(pub &'a Cell);

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Cell::Null => ValueRef::Null,
            Cell::Integer(n) => ValueRef::Integer(*n),
            Cell::Real(x) => ValueRef::Real(*x),
            Cell::Text(bytes) => ValueRef::Text(bytes),
            Cell::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Copies a value of a row.
pub(crate) fn cell(value: ValueRef<'_>) -> Cell {
    borrowed(value).to_cell()
}

/// Borrows a value of a row.
pub(crate) fn borrowed(value: ValueRef<'_>) -> ports::ValueRef<'_> {
    match value {
        ValueRef::Null => ports::ValueRef::Null,
        ValueRef::Integer(n) => ports::ValueRef::Integer(n),
        ValueRef::Real(x) => ports::ValueRef::Real(x),
        ValueRef::Text(bytes) => ports::ValueRef::Text(bytes),
        ValueRef::Blob(bytes) => ports::ValueRef::Blob(bytes),
    }
}

/// Returns a value of a row as text. Bytes that are not valid UTF-8 are replaced.
pub(crate) fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ValueRef::Integer(n) => n.to_string(),
        ValueRef::Real(x) => x.to_string(),
        ValueRef::Null => String::new(),
    }
}

/// Reads a column as a count. Negative numbers become 0.
pub(crate) fn count(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(at)?).unwrap_or(0))
}
