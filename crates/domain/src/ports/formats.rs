//! File formats: from bytes to typed rows.

use std::time::Duration;

use super::blobs::ReadSeek;
use crate::entities::{Cell, FileType, RowProblem};

/// A file could not be read as rows.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The file as a whole is wrong.
    #[error("{0}")]
    File(String),
    /// Some records are wrong; at most 100 are named.
    #[error("the file has records that cannot be imported")]
    Rows(Vec<RowProblem>),
    /// The bytes could not be read: a fault of the server.
    #[error("the uploaded file could not be read")]
    Io(#[source] std::io::Error),
}

/// A column of the file, and what its values look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferredColumn {
    /// Name in the file.
    pub name: String,
    /// Type for a new table: `INTEGER`, `REAL`, `TEXT`, or empty for mixed content.
    pub declared_type: String,
}

/// What the values of a file column are converted to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetColumn {
    /// A column of this declared type; its affinity decides.
    Typed(String),
}

/// Rows, one at a time.
pub trait RowSource {
    /// Replaces `row` by the next record, in file column order, and says on which line it begins; `None` at the end.
    ///
    /// # Errors
    /// [`FormatError`]; after an error the source is at its end.
    fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError>;
}

/// A file that was read once, to know its columns. Its rows may be read on another thread.
pub trait ImportFile: Send {
    /// Its columns, in file order.
    fn columns(&self) -> &[InferredColumn];

    /// The columns of its key, for formats that tell one; empty otherwise.
    fn primary_key(&self) -> &[String] {
        &[]
    }

    /// Reads it again, converting column by column.
    ///
    /// # Errors
    /// [`FormatError`] when the file cannot be opened again.
    fn rows(&self, targets: &[TargetColumn]) -> Result<Box<dyn RowSource + '_>, FormatError>;
}

/// Opens the bytes of a file from the start; called once per pass. A reader fails once the time of the import is over.
pub type Opener<'a> = dyn Fn() -> std::io::Result<Box<dyn ReadSeek>> + Send + 'a;

/// A file to be read.
pub struct FormatInput<'a> {
    /// Its format.
    pub file_type: FileType,
    /// Name of the table it is for; chooses among the sheets or tables of a file.
    pub table: &'a str,
    /// Opens it.
    pub open: Box<Opener<'a>>,
    /// Time each pass may still take, for what goes on between two reads.
    pub timeout: Duration,
}

/// Knows file formats. SQL scripts are none: the engine runs them.
pub trait Formats: Send + Sync {
    /// Whether this build can read the format.
    fn supports(&self, file_type: FileType) -> bool;

    /// Reads the whole file once, with flat memory.
    ///
    /// # Errors
    /// [`FormatError`] for a bad file.
    fn scan<'a>(&self, input: FormatInput<'a>) -> Result<Box<dyn ImportFile + 'a>, FormatError>;
}
