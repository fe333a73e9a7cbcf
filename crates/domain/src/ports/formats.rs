//! The port of file formats, which turns bytes into typed rows.

use std::time::Duration;

use super::blobs::ReadSeek;
use crate::entities::{Cell, FileType, ImportType, RowProblem, TextOptions};

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
    /// As [`TargetColumn::Typed`], of values that have to fit the chosen type.
    Chosen {
        /// The chosen type.
        chosen: ImportType,
        /// Declared type of the table column.
        declared: String,
    },
}

impl TargetColumn {
    /// Returns the declared type of the table column.
    pub fn declared(&self) -> &str {
        match self {
            Self::Typed(declared) | Self::Chosen { declared, .. } => declared,
        }
    }
}

/// What a numeric type would do with the values of a file column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Respelled {
    /// Number of values that the type spells differently, such as `1.10` as `1.1`.
    pub changed: u64,
    /// Number of values that do not fit the type.
    pub unfit: u64,
    /// At most three of the changed values, with their new spelling.
    pub first: Vec<(String, String)>,
}

/// What each numeric type would do with the values of a file column. Text changes no value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnSpelling {
    /// Whether a value begins with `+`.
    pub has_plus: bool,
    /// As `INTEGER`.
    pub integer: Respelled,
    /// As `REAL`.
    pub real: Respelled,
    /// As `NUMERIC`.
    pub numeric: Respelled,
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

    /// Returns what types would do with the values of each column. Empty unless [`FormatInput::counts_spelling`] is set, and for formats
    /// with typed values.
    fn spelling(&self) -> &[ColumnSpelling] {
        &[]
    }

    /// Returns the number of records in the file, if the first pass counted them.
    fn row_count(&self) -> Option<u64> {
        None
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
    /// How the file is written, for delimited text.
    pub text: TextOptions,
    /// Whether the scan counts the values that types would spell differently.
    pub counts_spelling: bool,
    /// Name of the target table. Selects the sheet or table in files that hold several.
    pub table: &'a str,
    /// Opens the file.
    pub open: Box<Opener<'a>>,
    /// Time left for each pass. Also bounds work between two reads of the file.
    pub timeout: Duration,
}

/// Maximum number of tables of a SQLite file that are listed.
pub const SQLITE_TABLES_LISTED: usize = 1_000;

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
    /// Returns the names of the tables in a SQLite 3 file, at most [`SQLITE_TABLES_LISTED`], by name.
    ///
    /// # Errors
    /// As [`SqliteFiles::open_sqlite`].
    fn sqlite_tables(&self, file: &mut dyn std::io::Read, timeout: Duration) -> Result<Vec<String>, FormatError>;

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

    /// Returns the names of the file's columns. Reads no more of the file than is necessary.
    ///
    /// # Errors
    /// [`FormatError`] if the file is invalid.
    fn columns(&self, input: FormatInput<'_>) -> Result<Vec<String>, FormatError> {
        let file = self.scan(input)?;
        Ok(file.columns().iter().map(|column| column.name.clone()).collect())
    }

    /// Returns the names of the tables in a SQLite file, or of the sheets in a workbook. Empty for formats without them.
    ///
    /// # Errors
    /// [`FormatError`] if the file is invalid.
    fn tables(&self, input: FormatInput<'_>) -> Result<Vec<String>, FormatError> {
        drop(input);
        Ok(Vec::new())
    }
}
