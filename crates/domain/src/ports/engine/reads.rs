//! Reads: statements, scans, pages of rows and of changes, and the sinks that receive them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::entities::{Cell, RowChange};

/// A column of a result set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name or alias of the column.
    pub name: String,
    /// Declared type of the table column, in upper case. `None` for expressions.
    pub declared_type: Option<String>,
    /// Whether the table column is part of a primary key.
    pub is_primary_key: bool,
    /// Table of the column. Empty for expressions.
    pub source_table: String,
}

/// A value of a result row, borrowed from the engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueRef<'a> {
    /// SQL NULL.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// A double-precision float. May be infinite.
    Real(f64),
    /// Text as stored. Not necessarily valid UTF-8.
    Text(&'a [u8]),
    /// Bytes.
    Blob(&'a [u8]),
}

impl ValueRef<'_> {
    /// Copies the value.
    pub fn to_cell(self) -> Cell {
        match self {
            Self::Null => Cell::Null,
            Self::Integer(number) => Cell::Integer(number),
            Self::Real(number) => Cell::Real(number),
            Self::Text(bytes) => Cell::Text(bytes.to_vec()),
            Self::Blob(bytes) => Cell::Blob(bytes.to_vec()),
        }
    }
}

/// A receiver of the rows of a read.
pub trait RowSink {
    /// Receives the columns. Called once, before any row.
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()>;

    /// Receives a row, with one value per column.
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()>;
}

/// A flag that cancels a call whose result is no longer needed. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct CancellationToken(Arc<AtomicBool>);

impl CancellationToken {
    /// Sets the flag.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the flag is set.
    pub fn is_canceled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// An untrusted read statement.
#[derive(Debug, Clone)]
pub struct ReadQuery<'a> {
    /// One statement.
    pub sql: &'a str,
    /// Time limit for computation. Time spent in the sink does not count.
    pub timeout: Duration,
    /// Cancels the statement. The error is the same as for a timeout.
    pub canceled: CancellationToken,
}

impl<'a> ReadQuery<'a> {
    /// Creates a query that cannot be canceled.
    pub fn new(sql: &'a str, timeout: Duration) -> Self {
        Self { sql, timeout, canceled: CancellationToken::default() }
    }
}

/// The report of a completed read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadReport {
    /// Whether the same statement at the same commit always returns the same rows, which makes the result cacheable.
    pub deterministic: bool,
}

/// A read of all rows of a table.
#[derive(Debug, Clone)]
pub struct TableScan<'a> {
    /// Name of the table, in any letter case.
    pub table: &'a str,
    /// Time limit for computation. Time spent in the sink does not count.
    pub timeout: Duration,
    /// Cancels the scan. The error is the same as for a timeout.
    pub canceled: CancellationToken,
}

/// A comparison of a column with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// Equal, after the column's affinity is applied to the value.
    Equals,
    /// Not equal. NULL differs from every value.
    Differs,
    /// Contains the value as a substring, compared case-insensitively for ASCII letters.
    Contains,
    /// Less than the value in the order of the column.
    Less,
    /// Greater than the value.
    More,
    /// Less than the value, or equal.
    AtMost,
    /// Greater than the value, or equal.
    AtLeast,
    /// Starts with the value, compared case-insensitively for ASCII letters.
    StartsWith,
    /// Equals the value of this test, or of another test of this kind on the same column.
    OneOf,
    /// Is NULL. The value is ignored.
    IsNull,
    /// Is not NULL. The value is ignored.
    IsNotNull,
}

/// A condition on the rows of a [`Selection`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowTest {
    /// The column.
    pub column: String,
    /// The comparison.
    pub test: Test,
    /// The value to compare with, as text.
    pub value: String,
}

/// A question about the values of a column.
#[derive(Debug, Clone)]
pub struct ColumnQuery<'a> {
    /// Name of the table or view, in any letter case.
    pub table: &'a str,
    /// The column. It exists.
    pub column: &'a str,
    /// The conditions that rows have to satisfy. Their columns exist.
    pub tests: &'a [RowTest],
    /// Maximum number of rows that are read. They are the first in an order that the engine chooses.
    pub rows: u64,
    /// Maximum number of values.
    pub limit: u64,
    /// Time limit.
    pub timeout: Duration,
}

/// The values of a column.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColumnValues {
    /// The most frequent values with their numbers of rows, the most frequent first, then in the order of the column. NULL, BLOBs and
    /// texts of more than [`ColumnValues::MAX_CHARACTERS`] are not among them.
    pub values: Vec<(Cell, u64)>,
    /// Whether the column has more values.
    pub more: bool,
    /// Number of rows that were read.
    pub rows: u64,
    /// Number of those rows in which the column is NULL.
    pub nulls: u64,
    /// The least and the greatest value among those that can be in `values`. `None` if there is none.
    pub range: Option<(Cell, Cell)>,
}

impl ColumnValues {
    /// Maximum length of a text in `values`, in characters.
    pub const MAX_CHARACTERS: u64 = 200;
}

/// The column by which rows are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowOrder<'a> {
    /// The column.
    pub column: &'a str,
    /// Whether the order is descending.
    pub descending: bool,
}

/// A page of rows of a table or view, for display.
///
/// A row of a table has a cursor: its value in the order column followed by its key values. A page after a cursor
/// costs the same at any depth if an index supports the order. Rows of a view have no cursor.
#[derive(Debug, Clone)]
pub struct Selection<'a> {
    /// Name of the table or view, in any letter case.
    pub table: &'a str,
    /// The conditions that rows have to satisfy. Their columns exist.
    pub tests: &'a [RowTest],
    /// The sort order. Ties are sorted by primary key in the same direction. The column exists.
    pub order: Option<RowOrder<'a>>,
    /// Whether to read from the end of the order, last row first. Views do not support this.
    pub backwards: bool,
    /// The cursor after which the page begins, in the direction of reading. Comes from an earlier page of the same
    /// table and order.
    pub after: Option<&'a [Cell]>,
    /// Number of rows to skip. Each costs as much as reading it.
    pub skip: u64,
    /// Maximum number of rows.
    pub limit: u64,
    /// Time limit for computation. Time spent in the sink does not count.
    pub timeout: Duration,
    /// Cancels the read. The error is the same as for a timeout.
    pub canceled: CancellationToken,
}

/// The cursors of the page that a [`Selection`] returned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selected {
    /// Cursor of the first row. `None` if there is no row, and for views.
    pub first: Option<Vec<Cell>>,
    /// Cursor of the last row. `None` if there is no row, and for views.
    pub last: Option<Vec<Cell>>,
    /// Whether more rows follow in the direction of reading.
    pub more: bool,
}

/// Bounds of a page of changed rows.
#[derive(Debug, Clone)]
pub struct RowPage {
    /// Key of the last row of the previous page.
    pub after: Option<Vec<Cell>>,
    /// Maximum number of rows.
    pub limit: usize,
    /// Soft limit on the bytes of values. A page ends at the row that reaches the limit, so every page has at least
    /// one row.
    pub bytes: usize,
}

/// A page of changed rows of a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChangedRows {
    /// The rows, by primary key.
    pub rows: Vec<RowChange>,
    /// Whether more rows may follow. If `false`, these were the last.
    pub more: bool,
}

impl ChangedRows {
    /// Returns the bytes of all values.
    pub fn bytes(&self) -> usize {
        let cells = self.rows.iter().flat_map(|row| [Some(&row.primary_key), row.from.as_ref(), row.to.as_ref()]);
        cells.flatten().flatten().map(|(_, cell)| cell.bytes()).sum()
    }
}
