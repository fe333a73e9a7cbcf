//! Previews of writes.

use std::time::Duration;

use super::ChangedRows;
use crate::entities::{TableChange, TableSchema};
use crate::values::CommitHash;

/// Untrusted statements to try on a commit.
#[derive(Debug, Clone, Copy)]
pub struct PreviewJob<'a> {
    /// The commit to start from.
    pub base: &'a CommitHash,
    /// One or more statements.
    pub statements: &'a str,
    /// Time limit of the statements and of the comparison together. Also the longest wait for the write turn.
    pub timeout: Duration,
    /// Maximum number of changed rows of a table.
    pub rows: usize,
    /// Soft limit on the bytes of values over all tables. The row that reaches it is the last one.
    pub bytes: usize,
    /// Where the statements run.
    pub place: PreviewPlace,
}

/// Where the statements of a preview run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviewPlace {
    /// In the file of the database, within its write turn, in a transaction that is rolled back.
    File,
    /// In a private copy of the file, without the turn. Fails with [`EngineError::Busy`](super::EngineError::Busy) if the file is too
    /// long to be copied while a caller waits, or too many copies are in use.
    Copy,
}

/// The outcome of a preview.
#[derive(Debug, Clone, PartialEq)]
pub enum Previewed {
    /// What the statements would change.
    Changes(WritePreview),
    /// The statements cannot be previewed. A write may still run them.
    Refused(PreviewRefusal),
}

/// Why statements cannot be previewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviewRefusal {
    /// They, or the comparison, take longer than the limit.
    TooLong,
    /// They take more memory than a statement may.
    TooLarge,
    /// They alter a table after they changed rows. The engine can do so only in a transaction of its own.
    AltersAfterChanges,
    /// They read the history of the database through the engine's tables, which the comparison needs itself.
    ReadsHistory,
}

/// What statements would change.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WritePreview {
    /// Number of rows that the statements would insert, update or delete, including changes by triggers.
    pub rows_affected: u64,
    /// The changed tables and views, by name.
    pub tables: Vec<PreviewedTable>,
}

/// A table that statements would change.
#[derive(Debug, Clone, PartialEq)]
pub struct PreviewedTable {
    /// The change, with the numbers of all changed rows.
    pub change: TableChange,
    /// The first changed rows.
    pub rows: ChangedRows,
    /// The definitions before and after, if they differ.
    pub definitions: (Option<TableSchema>, Option<TableSchema>),
}
