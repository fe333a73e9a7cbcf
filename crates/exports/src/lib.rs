//! Rows as files that are made as a whole, because their format begins with facts about their end: workbooks and Parquet.
//!
//! Each format is a [`RowSink`](branchyard_domain::ports::RowSink). A sink that fails keeps its error, which its `finish` returns,
//! and takes no more rows. The files do not depend on the time, so that the same rows always make the same bytes.
//!
//! Memory: a group of rows, at most [`parquet::GROUP_BYTES`] and one row; a workbook keeps its rows in a temporary file.
#![doc = include_str!("../README.md")]

pub mod parquet;
mod safe_text;
pub mod sql_script;
pub mod xlsx;

pub use safe_text::is_formula;

/// The reason why a file cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The format cannot hold the table. The text says why, for the user.
    #[error("{0}")]
    DoesNotFit(String),
    /// The file cannot be written.
    #[error("a file cannot be written")]
    Io(#[source] std::io::Error),
}
