//! The formats, where their bytes come from, and what a file of any of them may not exceed.

use std::io::{self, Read, Seek};

/// How the bytes of a file are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Comma-separated values with a header.
    Csv,
    /// Values separated by `|` with a header; otherwise as [`Format::Csv`].
    Psv,
    /// An array of objects, such an array under the single key `rows`, or objects one after another.
    Json,
    /// One YAML 1.2 document of the shapes of [`Format::Json`].
    Yaml,
    /// An Office Open XML workbook: one sheet with a header row.
    Xlsx,
    /// Apache Parquet.
    Parquet,
}

/// Bytes that can be read from anywhere.
pub trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// A file that can be opened as often as it has to be read.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// How to read it.
    pub format: Format,
    /// Name of the table it is for: chooses the sheet of a workbook.
    pub table: &'a str,
    /// What it may not exceed.
    pub limits: Limits,
    /// Opens it at its start.
    pub open: &'a dyn Fn() -> io::Result<Box<dyn ReadSeek>>,
}

impl std::fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("format", &self.format).field("table", &self.table).finish_non_exhaustive()
    }
}

/// What a file may not exceed. The default is the contract's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Columns of a file; more fail the file. Default 2,000.
    pub columns: usize,
    /// Bytes of one value, without its quotes; more are a row error. Default 16 MiB.
    pub value_bytes: usize,
    /// Bytes that the compressed parts of a file expand to; more fail the file. Default 8 GiB.
    pub expanded_bytes: u64,
}

impl Limits {
    /// Arrays and objects within each other in one value; deeper is a row error.
    pub const NESTING: usize = 64;

    /// Bytes of one record as it stands in the file; more are a row error. Keeps memory flat where a record has to be
    /// held whole. The engine takes no longer row either.
    pub fn record_bytes(&self) -> usize {
        self.value_bytes.saturating_mul(4)
    }

    /// What a value beyond the limit is told.
    pub(crate) fn too_long(&self) -> String {
        format!("the value is longer than {} bytes", self.value_bytes)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { columns: 2_000, value_bytes: 16 << 20, expanded_bytes: 8 << 30 }
    }
}
