//! Edits of rows: the changes to a table that a person made in a grid, or a program by key.

use super::Cell;
use crate::values::{CommitHash, RefName};

/// The value that an edit gives to a cell, or by which it finds a row. The type of the column decides what becomes of it, as in a
/// statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditedValue {
    /// SQL NULL.
    Null,
    /// A number, as a literal of SQL.
    Number(NumberLiteral),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// The literal of an integer or of a finite double.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberLiteral(String);

impl NumberLiteral {
    /// Parses what [`NumberLiteral::as_str`] returned. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self::integer).or_else(|| text.parse().ok().and_then(Self::real))
    }

    /// Returns the literal of an integer.
    pub fn integer(value: i64) -> Self {
        Self(value.to_string())
    }

    /// Returns the literal of a double. `None` for infinities and NaN.
    pub fn real(value: f64) -> Option<Self> {
        value.is_finite().then(|| Self(format!("{value:?}")))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl EditedValue {
    /// Returns the approximate memory size of the value, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::Number(number) => number.as_str().len(),
            Self::Text(text) => text.len(),
            Self::Blob(bytes) => bytes.len(),
        }
    }

    /// Returns `true` if a stored cell shows this value.
    pub fn is_shown_by(&self, cell: &Cell) -> bool {
        match (self, cell) {
            (Self::Null, Cell::Null) => true,
            (Self::Blob(ours), Cell::Blob(theirs)) => ours == theirs,
            (Self::Number(_) | Self::Text(_), Cell::Integer(number)) => self.shows(&number.to_string()),
            (Self::Number(_) | Self::Text(_), Cell::Real(number)) => self.shows(&format!("{number:?}")),
            (Self::Number(_) | Self::Text(_), Cell::Text(text)) => self.shows(&String::from_utf8_lossy(text)),
            _ => false,
        }
    }

    fn shows(&self, text: &str) -> bool {
        match self {
            Self::Number(number) => number.as_str() == text,
            Self::Text(own) => own == text,
            Self::Null | Self::Blob(_) => false,
        }
    }
}

/// What an edit does to a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowEdit {
    /// Adds a row. Columns that are not set get their defaults.
    Insert {
        /// Column → value.
        set: Vec<(String, EditedValue)>,
    },
    /// Changes cells of a row.
    Update {
        /// The primary key: column → value.
        key: Vec<(String, EditedValue)>,
        /// Column → value.
        set: Vec<(String, EditedValue)>,
    },
    /// Removes a row.
    Delete {
        /// The primary key: column → value.
        key: Vec<(String, EditedValue)>,
    },
}

impl RowEdit {
    /// Returns the primary key of the row. `None` for a new row.
    pub fn key(&self) -> Option<&[(String, EditedValue)]> {
        match self {
            Self::Insert { .. } => None,
            Self::Update { key, .. } | Self::Delete { key } => Some(key),
        }
    }

    /// Returns the cells that are set.
    pub fn set(&self) -> &[(String, EditedValue)] {
        match self {
            Self::Insert { set } | Self::Update { set, .. } => set,
            Self::Delete { .. } => &[],
        }
    }

    /// Returns the approximate memory size of names and values, in bytes.
    pub fn bytes(&self) -> usize {
        let cells = self.key().into_iter().flatten().chain(self.set());
        cells.map(|(column, value)| column.len() + value.bytes()).sum()
    }
}

/// The input of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditRequest {
    /// The branch from which `to_branch` is created if absent.
    pub branch: RefName,
    /// The branch that is changed.
    pub to_branch: RefName,
    /// The commit whose rows were edited.
    pub base: CommitHash,
    /// The table.
    pub table: String,
    /// The rows. They are edited in this order.
    pub rows: Vec<RowEdit>,
    /// Message of the commit.
    pub message: String,
}

impl EditRequest {
    /// Returns the approximate memory size, in bytes.
    pub fn bytes(&self) -> usize {
        self.message.len() + self.rows.iter().map(RowEdit::bytes).sum::<usize>()
    }
}

/// A cell that others changed after the rows of an edit were read.
#[derive(Debug, Clone, PartialEq)]
pub struct CellConflict {
    /// The position of the row in the edit, from 1.
    pub line: u64,
    /// The column.
    pub column: String,
    /// The value at the base. `None` if there was no row.
    pub base: Option<Cell>,
    /// The value that the branch has now. `None` if the row is gone.
    pub current: Option<Cell>,
    /// The value of the edit. `None` if it deletes the row.
    pub wanted: Option<EditedValue>,
}
