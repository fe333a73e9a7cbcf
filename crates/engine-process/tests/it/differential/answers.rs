//! Answers of an engine in a form that can be compared.

use std::fmt::Debug;
use std::ops::ControlFlow;

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{Column, EngineError, FormatError, RowSink, SqlFailure, ValueRef};
use branchyard_domain::values::CommitHash;

/// The answer to a call.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The result or error, as text.
    pub(super) text: String,
    /// The columns of the rows, as text.
    pub(super) columns: String,
    /// The rows, encoded.
    pub(super) rows: Vec<u8>,
    /// Whether the rows are the same each time. `None` if the call does not say so.
    pub(super) deterministic: Option<bool>,
    /// Whether the receiver wanted no more rows.
    pub(super) is_stopped: bool,
    pub(super) is_late: bool,
    pub(super) is_error: bool,
    /// The new head.
    pub(super) head: Option<CommitHash>,
    /// The cursor of a page.
    pub(super) cursor: Option<Vec<Cell>>,
}

impl Answer {
    /// Returns the answer that is a result or an error.
    pub(super) fn of<T: Debug>(result: Result<T, EngineError>) -> Self {
        match result {
            Ok(value) => Self { text: format!("{value:?}"), ..Self::default() },
            Err(error) => {
                let is_late = matches!(
                    error,
                    EngineError::TimedOut(_) | EngineError::Sql { failure: SqlFailure::TimedOut(_), .. }
                );
                Self { text: described(&error), is_late, is_error: true, ..Self::default() }
            }
        }
    }

    pub(super) fn with_rows(self, rows: Rows) -> Self {
        Self { columns: rows.columns, rows: rows.rows, is_stopped: rows.is_stopped, ..self }
    }

    /// Returns `true` if both answers are the same.
    pub(super) fn is_equal(&self, other: &Self) -> bool {
        self.has_equal_rows(other) && self.deterministic == other.deterministic
    }

    /// Returns `true` if both answers are the same, except for whether the rows are always the same. What was read
    /// before the end of the time may differ.
    pub(super) fn has_equal_rows(&self, other: &Self) -> bool {
        let same = self.text == other.text && self.head == other.head;
        same && (self.is_late || (self.columns == other.columns && self.rows == other.rows))
    }

    /// Returns `true` if both answers may come from a call that depends on more than its commit.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.columns == other.columns && self.is_error == other.is_error
    }

    /// Returns the answer for a failed test.
    pub(super) fn shown(&self) -> String {
        let rows = String::from_utf8_lossy(&self.rows);
        let rows: String = rows.chars().take(600).collect();
        let deterministic = self.deterministic;
        format!("{:.1500}, {deterministic:?}\n{:.500}\n{} bytes: {rows:?}", self.text, self.columns, self.rows.len())
    }
}

fn described(error: &EngineError) -> String {
    match error {
        EngineError::Fault { context, source } => format!("Fault({context}: {source})"),
        EngineError::Import(FormatError::Io(error)) => format!("Import(Io({:?}, {error}))", error.kind()),
        other => format!("{other:?}"),
    }
}

/// A sink that encodes rows, up to a number of bytes and rows.
pub(super) struct Rows {
    columns: String,
    rows: Vec<u8>,
    count: usize,
    most: usize,
    is_stopped: bool,
}

/// Bytes after which no more rows are taken.
const MOST_BYTES: usize = 8 << 20;

impl Rows {
    pub(super) fn at_most(most: usize) -> Self {
        Self { columns: String::new(), rows: Vec::new(), count: 0, most, is_stopped: false }
    }

    fn goes_on(&mut self) -> ControlFlow<()> {
        self.is_stopped = self.count >= self.most || self.rows.len() > MOST_BYTES;
        if self.is_stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl RowSink for Rows {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        self.columns += &format!("{columns:?}");
        self.goes_on()
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        for value in row {
            match value {
                ValueRef::Null => self.rows.extend_from_slice(b"null;"),
                ValueRef::Integer(n) => self.rows.extend_from_slice(format!("{n};").as_bytes()),
                ValueRef::Real(x) => self.rows.extend_from_slice(format!("{x:?} {:x};", x.to_bits()).as_bytes()),
                ValueRef::Text(bytes) => {
                    self.rows.extend_from_slice(format!("text {} ", bytes.len()).as_bytes());
                    self.rows.extend_from_slice(bytes);
                }
                ValueRef::Blob(bytes) => {
                    self.rows.extend_from_slice(format!("blob {} ", bytes.len()).as_bytes());
                    self.rows.extend_from_slice(bytes);
                }
            }
        }
        self.rows.push(b'\n');
        self.count += 1;
        self.goes_on()
    }
}
