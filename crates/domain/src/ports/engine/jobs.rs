//! Writes, merges and imports, and their outcomes.

use std::time::Duration;

use super::reads::CancellationToken;
use crate::entities::{ImportMode, RowResolution, Side, Signature};
use crate::values::CommitHash;

/// The limits of an export as a SQLite file.
#[derive(Debug, Clone)]
pub struct SqliteExport {
    /// Maximum size of the file in bytes.
    pub max_bytes: u64,
    /// Time limit.
    pub timeout: Duration,
    /// Cancels the export. The error is the same as for a timeout.
    pub canceled: CancellationToken,
}

/// Untrusted statements to run on a commit, and an optional merge afterwards.
#[derive(Debug, Clone)]
pub struct WriteJob<'a> {
    /// The commit to start from.
    pub base: &'a CommitHash,
    /// One or more statements.
    pub statements: &'a str,
    /// Message of the commit.
    pub message: &'a str,
    /// The commit to merge afterwards, and the message of the merge. Skipped if the new head already contains the
    /// commit.
    pub then_merge: Option<(&'a CommitHash, &'a str)>,
    /// Author of all commits.
    pub author: &'a Signature,
    /// Time limit for the statements.
    pub timeout: Duration,
}

/// Untrusted statements that run as one commit of several.
#[derive(Debug, Clone, Copy)]
pub struct BatchedWrite<'a> {
    /// One or more statements.
    pub statements: &'a str,
    /// Message of the commit.
    pub message: &'a str,
    /// Author of the commit.
    pub author: &'a Signature,
    /// Time limit for the statements.
    pub timeout: Duration,
}

/// Two commits to merge.
#[derive(Debug, Clone)]
pub struct MergeJob<'a> {
    /// The side to merge into.
    pub ours: &'a CommitHash,
    /// The side to merge from. Has to be in the file already (see [`Engine::fetch`](super::Engine::fetch)).
    pub theirs: &'a CommitHash,
    /// Message of the merge commit.
    pub message: &'a str,
    /// Author of the merge commit.
    pub author: &'a Signature,
    /// The side that wins conflicts, by table.
    pub resolve: &'a std::collections::BTreeMap<String, Side>,
    /// Decisions about single rows in conflict, which come before those about tables. Each row has to be in conflict.
    pub rows: &'a [RowResolution],
    /// Whether the result may be `theirs` if it descends from `ours`. Otherwise there is a merge commit also then.
    pub fast_forward: bool,
    /// Time limit.
    pub timeout: Duration,
}

/// The outcome of a merge or a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The new head. Equal to the old one if nothing changed.
    Head(CommitHash),
    /// Conflicts prevented the merge and nothing changed. Holds the number of conflicts by table.
    Conflicts(Vec<(String, u64)>),
}

/// The outcome of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The outcome, including that of the merge.
    pub outcome: MergeOutcome,
    /// Number of rows that the statements inserted, updated or deleted, including changes by triggers.
    pub rows_affected: u64,
}

/// A column that an import fills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportColumn {
    /// Name in the table.
    pub name: String,
    /// Declared type for a new table. Empty for none.
    pub declared_type: String,
}

/// What an import does to its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportTarget {
    /// Creates the table. The table must not exist, unless `overwrite` is set.
    New {
        /// Columns of the primary key, in order. They become `NOT NULL`.
        primary_key: Vec<String>,
        /// Whether to drop an existing table.
        overwrite: bool,
    },
    /// Upserts rows by primary key.
    Update,
    /// Keeps the definition of the table and replaces all rows.
    Replace,
}

/// Rows to import into a table, as one commit.
#[derive(Debug, Clone)]
pub struct ImportJob<'a> {
    /// The commit to start from.
    pub base: &'a CommitHash,
    /// The table.
    pub table: &'a str,
    /// What to do with the table.
    pub target: &'a ImportTarget,
    /// The columns, in the order of the values in the source.
    pub columns: &'a [ImportColumn],
    /// Message of the commit.
    pub message: &'a str,
    /// Author of the commit.
    pub author: &'a Signature,
    /// Time limit.
    pub timeout: Duration,
}

/// An SQL script to run on a commit, as one commit.
#[derive(Debug, Clone)]
pub struct ScriptJob<'a> {
    /// The commit to start from.
    pub base: &'a CommitHash,
    /// The table that the script has to leave behind, and how the table is prepared: [`ImportMode::Create`] requires
    /// it to be absent, [`ImportMode::Overwrite`] drops it if it exists, [`ImportMode::Update`] requires it to exist,
    /// and [`ImportMode::Replace`] requires it to exist and deletes its rows.
    pub target: Option<(&'a str, ImportMode)>,
    /// Maximum length of one statement, in bytes.
    pub statement_bytes: usize,
    /// Message of the commit.
    pub message: &'a str,
    /// Author of the commit.
    pub author: &'a Signature,
    /// Time limit.
    pub timeout: Duration,
}
