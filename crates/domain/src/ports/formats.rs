//! The port of file formats, which turns bytes into typed rows.

use std::time::Duration;

use super::blobs::ReadSeek;
use crate::entities::{Cell, FileType, RowProblem};

/// An error in reading a file as rows.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The file as a whole is invalid.
    #[error("{0}")]
    File(String),
    /// Some records are invalid. Holds at most 100 of them.
    #[error("the file has records that cannot be imported")]
    Rows(Vec<RowProblem>),
    /// The bytes could not be read. The server is at fault, not the file.
    #[error("the uploaded file could not be read")]
    Io(#[source] std::io::Error),
}

/// A column of a file with the type inferred from its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferredColumn {
    /// Name of the column in the file.
    pub name: String,
    /// Declared type for a new table: `INTEGER`, `REAL`, `TEXT`, or empty for mixed values.
    pub declared_type: String,
}

/// The conversion of the values of a file column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetColumn {
    /// To a table column of this declared type, by its SQLite type affinity.
    Typed(String),
}

/// A stream of rows.
pub trait RowSource {
    /// Replaces `row` by the next record, in file column order, and returns the number of the line on which the
    /// record begins. Returns `None` at the end.
    ///
    /// # Errors
    /// [`FormatError`]. The source is at its end after an error.
    fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError>;
}

/// A file whose columns are known from a first pass. `Send`, so that another thread can read its rows.
pub trait ImportFile: Send {
    /// Returns the columns of the file, in file order.
    fn columns(&self) -> &[InferredColumn];

    /// Returns the primary key columns of the file. Empty if the format has no primary keys.
    fn primary_key(&self) -> &[String] {
        &[]
    }

    /// Starts another pass over the file, which converts each column to its target.
    ///
    /// # Errors
    /// [`FormatError`] if the file cannot be opened again.
    fn rows(&self, targets: &[TargetColumn]) -> Result<Box<dyn RowSource + '_>, FormatError>;
}

/// Opens the file at its start; called once per pass. Reads fail once the deadline of the import has passed.
pub type Opener<'a> = dyn Fn() -> std::io::Result<Box<dyn ReadSeek>> + Send + 'a;

/// A file to read.
pub struct FormatInput<'a> {
    /// Format of the file.
    pub file_type: FileType,
    /// Name of the target table. Selects the sheet or table in files that hold several.
    pub table: &'a str,
    /// Opens the file.
    pub open: Box<Opener<'a>>,
    /// Time left for each pass. Also bounds work between two reads of the file.
    pub timeout: Duration,
}

/// A table of a SQLite file.
pub trait SqliteFileTable: Send {
    /// Returns the column names, in the order of the table.
    fn columns(&self) -> &[String];

    /// Returns the names of the key columns, in key order.
    fn primary_key(&self) -> &[String];

    /// Reads the table from its first row.
    ///
    /// # Errors
    /// [`FormatError`] if the file cannot be opened again.
    fn rows(&self) -> Result<Box<dyn SqliteFileRows>, FormatError>;
}

/// The rows of a table of a SQLite file.
pub trait SqliteFileRows {
    /// Returns the next row, in the order of the columns, or `None` after the last.
    ///
    /// # Errors
    /// [`FormatError`]; no row follows an error.
    fn next_row(&mut self) -> Result<Option<Vec<Cell>>, FormatError>;
}

/// Reads tables of untrusted SQLite files. Engines implement it, because they link SQLite.
pub trait SqliteFiles: Send + Sync {
    /// Checks the integrity of a SQLite 3 file, and finds the table with the name `table`, or the only table of the file.
    /// All work with the result ends after `timeout`.
    ///
    /// # Errors
    /// [`FormatError::File`] if the file is not a SQLite 3 file or is damaged; [`FormatError::Io`] if it cannot be read.
    fn open_sqlite(
        &self,
        file: &mut dyn std::io::Read,
        table: &str,
        timeout: Duration,
    ) -> Result<Box<dyn SqliteFileTable>, FormatError>;
}

/// The supported file formats. SQL scripts are not among them, because the engine runs them.
pub trait Formats: Send + Sync {
    /// Returns `true` if this build supports the format.
    fn supports(&self, file_type: FileType) -> bool;

    /// Reads the whole file once to learn its columns, in constant memory.
    ///
    /// # Errors
    /// [`FormatError`] if the file is invalid.
    fn scan<'a>(&self, input: FormatInput<'a>) -> Result<Box<dyn ImportFile + 'a>, FormatError>;
}
