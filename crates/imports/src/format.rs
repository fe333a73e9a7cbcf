//! The formats and what a file of any of them may not exceed.

/// How the bytes of a file are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Comma-separated values with a header.
    Csv,
    /// Values separated by `|` with a header; otherwise as [`Format::Csv`].
    Psv,
}

/// What a file may not exceed. The default is the contract's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Columns of a file; more fail the file. Default 2,000.
    pub columns: usize,
    /// Bytes of one value, without its quotes; more are a row error. Default 16 MiB.
    pub value_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { columns: 2_000, value_bytes: 16 * 1024 * 1024 }
    }
}
