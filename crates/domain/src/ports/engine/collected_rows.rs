//! A sink that keeps the rows of a read in memory.

use std::ops::ControlFlow;

use data_encoding::HEXLOWER;

use super::{Column, RowSink, ValueRef};
use crate::entities::Cell;

/// The columns and rows of a read, in memory. For results whose size the caller knows or bounds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CollectedRows {
    /// The columns. Empty until they are known.
    pub columns: Vec<Column>,
    /// The rows so far.
    pub rows: Vec<Vec<Cell>>,
    /// Number of rows after which the read is stopped. 0 means never.
    pub stop_after: usize,
}

impl CollectedRows {
    /// Creates a sink that stops the read after `rows` rows.
    pub fn stopping_after(rows: usize) -> Self {
        Self { stop_after: rows, ..Self::default() }
    }

    /// Returns the rows as text, with values separated by `|` and `NULL` for NULL.
    pub fn lines(&self) -> Vec<String> {
        let line = |row: &Vec<Cell>| row.iter().map(text).collect::<Vec<_>>().join("|");
        self.rows.iter().map(line).collect()
    }
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Null => "NULL".to_owned(),
        Cell::Integer(number) => number.to_string(),
        Cell::Real(number) => format!("{number:?}"),
        Cell::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Cell::Blob(bytes) => HEXLOWER.encode(bytes),
    }
}

impl RowSink for CollectedRows {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        self.columns = columns.to_vec();
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.rows.push(row.iter().map(|value| value.to_cell()).collect());
        if self.rows.len() == self.stop_after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
