//! File formats, inputs and limits.

use std::io::{self, Read, Seek};

use crate::delimited::Delimiter;
use crate::encoding::Encoding;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Comma-separated values with a header.
    Csv,
    /// Values separated by `|` with a header, otherwise like [`Format::Csv`].
    Psv,
    /// Values separated by tabs with a header, otherwise like [`Format::Csv`].
    Tsv,
    /// A JSON array of objects, an object with the single key `rows` that holds such an array, or a sequence of objects.
    Json,
    /// One YAML 1.2 document in one of the document shapes of [`Format::Json`].
    Yaml,
    /// An Office Open XML workbook, of which one sheet with a header row is read.
    Xlsx,
    /// Apache Parquet.
    Parquet,
}

/// A readable and seekable stream of bytes.
pub trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// A file that can be opened any number of times.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The format of the file.
    pub format: Format,
    /// Name of the destination table, which selects the sheet of a workbook.
    pub table: &'a str,
    /// The limits that apply to the file.
    pub limits: FileLimits,
    /// How delimited text is written. Other formats ignore this.
    pub text: TextOptions,
    /// Opens the file at its start.
    pub open: &'a dyn Fn() -> io::Result<Box<dyn ReadSeek>>,
}

impl std::fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("format", &self.format).field("table", &self.table).finish_non_exhaustive()
    }
}

/// How a file of delimited text is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextOptions {
    /// The delimiter. `None` selects that of the format.
    pub delimiter: Option<Delimiter>,
    /// The encoding.
    pub encoding: Encoding,
    /// Whether a scan counts the values that a type would spell differently ([`crate::Scan::spelling`]).
    pub counts_spelling: bool,
}

/// The limits of a file. The defaults are those of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Maximum number of columns; a file with more is rejected. Default 2,000.
    pub columns: usize,
    /// Maximum size of a value in bytes, without its quotes; a larger one is a row error. Default 16 MiB.
    pub value_bytes: usize,
    /// Maximum size in bytes to which the compressed parts of a file may expand; a larger file is rejected. Default 8 GiB.
    pub expanded_bytes: u64,
}

impl FileLimits {
    /// Maximum nesting of arrays and objects in one value; a deeper one is a row error.
    pub const NESTING: usize = 64;

    /// Returns the maximum size in bytes of one record in the file; a larger one is a row error. The limit bounds memory for
    /// formats that have to hold a record whole. The engine accepts no longer row either.
    pub fn record_bytes(&self) -> usize {
        self.value_bytes.saturating_mul(4)
    }

    /// Returns the error detail for a value beyond the limit.
    pub(crate) fn too_long(&self) -> String {
        format!("the value is longer than {} bytes", self.value_bytes)
    }
}

impl Default for FileLimits {
    fn default() -> Self {
        Self { columns: 2_000, value_bytes: 16 << 20, expanded_bytes: 8 << 30 }
    }
}
