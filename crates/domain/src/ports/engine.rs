//! The engine port: immutable commits with their tables and history, one file per database.
//!
//! The engine does not know the branches and tags of users: every call names commits. A commit that no ref reaches is
//! garbage.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::formats::{FormatError, RowSource};
use crate::entities::{
    Cell, Commit, Conflict, ImportMode, LogEntry, LogPosition, RowChange, SchemaObject, Side, Signature, TableChange,
    TableSchema,
};
use crate::values::{CommitHash, DatabaseId};

/// An error in a user's statement. `Display` is the text that the wire contracts fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqlFailure {
    /// The statement does not parse.
    #[error("query error: Error parsing SQL: syntax error at position {position} near '{near}'.")]
    Syntax {
        /// The 1-based byte position just after the offending token.
        position: usize,
        /// The offending token. Empty if the text ends too early.
        near: String,
    },
    /// The text of a read holds more than one statement.
    #[error("query error: Error parsing SQL: one statement at a time")]
    SeveralStatements,
    /// A `SHOW` statement that is not supported.
    #[error("query error: Error parsing SQL: unsupported SHOW statement")]
    UnsupportedShow,
    /// The table or view does not exist.
    #[error("query error: table not found: {0}")]
    NoSuchTable(String),
    /// The statement of a read would write.
    #[error("query error: only read statements are allowed here")]
    NotARead,
    /// The statement is never allowed. Holds its first word as written.
    #[error("query error: statement not allowed: {0}")]
    NotAllowed(String),
    /// The statement exceeded its time limit, in milliseconds.
    #[error("query error: query timed out after {0} ms")]
    TimedOut(u64),
    /// Any other message of the engine.
    #[error("query error: {0}")]
    Engine(String),
}

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A statement failed.
    #[error("{failure}")]
    Sql {
        /// The reason.
        failure: SqlFailure,
        /// The number of the statement, counting from 1.
        statement: u32,
    },
    /// The imported file is invalid.
    #[error("the import was refused")]
    Import(#[source] FormatError),
    /// The file holds no commit with this hash.
    #[error("commit {0} is not in the database")]
    NoSuchCommit(CommitHash),
    /// The table is not in the commit.
    #[error("table {0} is not in the commit")]
    NoSuchTable(String),
    /// The table to create is already in the commit.
    #[error("table {0} exists")]
    TableExists(String),
    /// The two sides cannot be merged for a reason other than conflicts.
    #[error("cannot merge: {0}")]
    CannotMerge(String),
    /// The time limit was exceeded, in milliseconds.
    #[error("took longer than {0} ms")]
    TimedOut(u64),
    /// Too many long calls run at once, or the shared memory is used up. A later try may succeed.
    #[error("too many long or large calls at once")]
    Busy,
    /// The file is damaged or incomplete.
    #[error("the database file is damaged: {0}")]
    Damaged(String),
    /// A commit cannot be read. The rest of the database may be intact.
    #[error("commit {commit} cannot be read: {detail}")]
    DamagedCommit {
        /// The commit.
        commit: CommitHash,
        /// The operation that failed and its error.
        detail: String,
    },
    /// The disk is full, or another transient failure occurred.
    #[error("the engine is unavailable: {0}")]
    Unavailable(String),
    /// Any other failure, for the operator.
    #[error("the engine failed: {context}")]
    Fault {
        /// The operation that failed.
        context: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A column of a result set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name or alias of the column.
    pub name: String,
    /// Declared type of the table column, in upper case. `None` for expressions.
    pub declared_type: Option<String>,
    /// Whether the table column is part of a primary key.
    pub is_primary_key: bool,
    /// Table of the column. Empty for expressions.
    pub source_table: String,
}

/// A value of a result row, borrowed from the engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueRef<'a> {
    /// SQL NULL.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// A double-precision float. May be infinite.
    Real(f64),
    /// Text as stored. Not necessarily valid UTF-8.
    Text(&'a [u8]),
    /// Bytes.
    Blob(&'a [u8]),
}

/// A receiver of the rows of a read.
pub trait RowSink {
    /// Receives the columns. Called once, before any row.
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()>;

    /// Receives a row, with one value per column.
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()>;
}

/// A flag that cancels a call whose result is no longer needed. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct CancellationToken(Arc<AtomicBool>);

impl CancellationToken {
    /// Sets the flag.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the flag is set.
    pub fn is_canceled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// An untrusted read statement.
#[derive(Debug, Clone)]
pub struct ReadQuery<'a> {
    /// One statement.
    pub sql: &'a str,
    /// Time limit for computation. Time spent in the sink does not count.
    pub timeout: Duration,
    /// Cancels the statement. The error is the same as for a timeout.
    pub canceled: CancellationToken,
}

impl<'a> ReadQuery<'a> {
    /// Creates a query that cannot be canceled.
    pub fn new(sql: &'a str, timeout: Duration) -> Self {
        Self { sql, timeout, canceled: CancellationToken::default() }
    }
}

/// The report of a completed read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadReport {
    /// Whether the same statement at the same commit always returns the same rows, which makes the result cacheable.
    pub deterministic: bool,
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

/// Two commits to merge.
#[derive(Debug, Clone)]
pub struct MergeJob<'a> {
    /// The side to merge into.
    pub ours: &'a CommitHash,
    /// The side to merge from. Has to be in the file already (see [`Engine::fetch`]).
    pub theirs: &'a CommitHash,
    /// Message of the merge commit.
    pub message: &'a str,
    /// Author of the merge commit.
    pub author: &'a Signature,
    /// The side that wins conflicts, by table.
    pub resolve: &'a std::collections::BTreeMap<String, Side>,
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

/// A read of all rows of a table.
#[derive(Debug, Clone)]
pub struct TableScan<'a> {
    /// Name of the table, in any letter case.
    pub table: &'a str,
    /// Time limit for computation. Time spent in the sink does not count.
    pub timeout: Duration,
    /// Cancels the scan. The error is the same as for a timeout.
    pub canceled: CancellationToken,
}

/// A comparison of a column with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// Equal, after the column's affinity is applied to the value.
    Equals,
    /// Not equal. NULL differs from every value.
    Differs,
    /// Contains the value as a substring, compared case-insensitively for ASCII letters.
    Contains,
    /// Less than the value in the order of the column.
    Less,
    /// Greater than the value.
    More,
    /// Is NULL. The value is ignored.
    IsNull,
    /// Is not NULL. The value is ignored.
    IsNotNull,
}

/// A condition on the rows of a [`Selection`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowTest {
    /// The column.
    pub column: String,
    /// The comparison.
    pub test: Test,
    /// The value to compare with, as text.
    pub value: String,
}

/// The column by which rows are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowOrder<'a> {
    /// The column.
    pub column: &'a str,
    /// Whether the order is descending.
    pub descending: bool,
}

/// A page of rows of a table or view, for display.
///
/// A row of a table has a cursor: its value in the order column followed by its key values. A page after a cursor
/// costs the same at any depth if an index supports the order. Rows of a view have no cursor.
#[derive(Debug, Clone)]
pub struct Selection<'a> {
    /// Name of the table or view, in any letter case.
    pub table: &'a str,
    /// The conditions that rows have to satisfy. Their columns exist.
    pub tests: &'a [RowTest],
    /// The sort order. Ties are sorted by primary key in the same direction. The column exists.
    pub order: Option<RowOrder<'a>>,
    /// Whether to read from the end of the order, last row first. Views do not support this.
    pub backwards: bool,
    /// The cursor after which the page begins, in the direction of reading. Comes from an earlier page of the same
    /// table and order.
    pub after: Option<&'a [Cell]>,
    /// Number of rows to skip. Each costs as much as reading it.
    pub skip: u64,
    /// Maximum number of rows.
    pub limit: u64,
    /// Time limit for computation. Time spent in the sink does not count.
    pub timeout: Duration,
    /// Cancels the read. The error is the same as for a timeout.
    pub canceled: CancellationToken,
}

/// The cursors of the page that a [`Selection`] returned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selected {
    /// Cursor of the first row. `None` if there is no row, and for views.
    pub first: Option<Vec<Cell>>,
    /// Cursor of the last row. `None` if there is no row, and for views.
    pub last: Option<Vec<Cell>>,
    /// Whether more rows follow in the direction of reading.
    pub more: bool,
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

/// Bounds of a page of changed rows.
#[derive(Debug, Clone)]
pub struct RowPage {
    /// Key of the last row of the previous page.
    pub after: Option<Vec<Cell>>,
    /// Maximum number of rows.
    pub limit: usize,
    /// Soft limit on the bytes of values. A page ends at the row that reaches the limit, so every page has at least
    /// one row.
    pub bytes: usize,
}

/// A page of changed rows of a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChangedRows {
    /// The rows, by primary key.
    pub rows: Vec<RowChange>,
    /// Whether more rows may follow. If `false`, these were the last.
    pub more: bool,
}

/// The rule that decides which commits a database shows. Its file may hold more commits: those of deleted branches,
/// of fetches for pull requests, and those that a fork copied. These are treated as absent.
pub trait Reachability: Send + Sync {
    /// Returns `true` if a branch, tag, release or pull request of the database refers to `commit` or to one of its
    /// descendants. `descends` returns `true` if one of its arguments is `commit` or a descendant of `commit`.
    ///
    /// # Errors
    /// [`EngineError`] if the look-up fails.
    fn reaches(
        &self,
        database: DatabaseId,
        commit: &CommitHash,
        descends: &mut dyn FnMut(&[CommitHash]) -> Result<bool, EngineError>,
    ) -> Result<bool, EngineError>;
}

/// A store of commits that runs SQL on them.
///
/// Calls may run concurrently. Writes to one database are queued in order of arrival.
pub trait Engine: Send + Sync {
    /// Creates the file of a new database with one empty commit. Replaces an existing file.
    ///
    /// # Errors
    /// [`EngineError`].
    fn create(&self, database: DatabaseId, author: &Signature, message: &str) -> Result<CommitHash, EngineError>;

    /// Copies a database with its whole history, even while it is written to. Replaces an existing copy.
    ///
    /// # Errors
    /// [`EngineError`].
    fn copy(&self, from: DatabaseId, to: DatabaseId) -> Result<(), EngineError>;

    /// Removes a database. Does nothing if there is none.
    ///
    /// # Errors
    /// [`EngineError`].
    fn remove(&self, database: DatabaseId) -> Result<(), EngineError>;

    /// Lists the databases that have a file.
    ///
    /// # Errors
    /// [`EngineError`].
    fn list(&self) -> Result<Vec<DatabaseId>, EngineError>;

    /// Returns the size of the file in bytes.
    ///
    /// # Errors
    /// [`EngineError`].
    fn size_bytes(&self, database: DatabaseId) -> Result<u64, EngineError>;

    /// Reads a commit. Returns `None` if the commit is not in the file.
    ///
    /// # Errors
    /// [`EngineError`].
    fn commit(&self, database: DatabaseId, hash: &CommitHash) -> Result<Option<Commit>, EngineError>;

    /// Returns `true` if `ancestor` is `descendant` or one of its ancestors.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`] if `descendant` is not in the file.
    fn is_ancestor(
        &self,
        database: DatabaseId,
        ancestor: &CommitHash,
        descendant: &CommitHash,
    ) -> Result<bool, EngineError>;

    /// Returns `true` if one of `heads` is `commit` or descends from it. Heads that are not in the file are ignored.
    ///
    /// # Errors
    /// [`EngineError`].
    fn descends(&self, database: DatabaseId, heads: &[CommitHash], commit: &CommitHash) -> Result<bool, EngineError> {
        for head in heads {
            match self.is_ancestor(database, commit, head) {
                Ok(false) | Err(EngineError::NoSuchCommit(_)) => {}
                other => return other,
            }
        }
        Ok(false)
    }

    /// Restricts the commits that users' statements find by hash to the ancestors of the commit they run at and the
    /// commits that `reachability` shows. Before this call, statements find every commit in the file. Only the first
    /// call has an effect.
    fn limit_history(&self, reachability: std::sync::Arc<dyn Reachability>);

    /// Returns the best common ancestor.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`].
    fn merge_base(
        &self,
        database: DatabaseId,
        a: &CommitHash,
        b: &CommitHash,
    ) -> Result<Option<CommitHash>, EngineError>;

    /// Lists commits of a history from a position on: children before parents, then newest first. The duration
    /// depends on `limit` and on the number of commits between the two ends of the position, not on the distance from
    /// the head.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`].
    fn log(&self, database: DatabaseId, at: &LogPosition, limit: usize) -> Result<Vec<LogEntry>, EngineError>;

    /// Fetches a commit with its history from one database into another. Does nothing if the commit is already there.
    ///
    /// Never waits for writers of the source. Shares the write queue of the target with its writers, step by step,
    /// and may spend a while copying the source file. Unsuitable for callers that need an immediate answer.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`] if the source does not have the commit.
    fn fetch(&self, into: DatabaseId, from: DatabaseId, commit: &CommitHash) -> Result<(), EngineError>;

    /// Runs one untrusted read statement at a commit.
    ///
    /// # Errors
    /// [`EngineError::Sql`] if the statement fails.
    fn read(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        query: &ReadQuery<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<ReadReport, EngineError>;

    /// Sends all rows of a table at a commit to the sink, by primary key, or by row id if there is no key. Returns
    /// the time left of the limit.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], for views too; [`EngineError::TimedOut`].
    fn scan(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        scan: &TableScan<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Duration, EngineError>;

    /// Sends a page of rows of a table or view at a commit to the sink, and returns the cursors of the page.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`]; [`EngineError::Sql`] if the query of a view fails, the time limit is exceeded,
    /// or the cursor does not belong to this order.
    fn rows(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        wanted: &Selection<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Selected, EngineError>;

    /// Counts the rows of a table or view that satisfy all conditions at a commit.
    ///
    /// # Errors
    /// As [`Engine::rows`].
    fn count(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        table: &str,
        tests: &[RowTest],
        timeout: Duration,
    ) -> Result<u64, EngineError>;

    /// Runs untrusted statements on a commit as one commit and then merges, atomically.
    ///
    /// # Errors
    /// [`EngineError::Sql`] if a statement fails.
    fn write(&self, database: DatabaseId, job: &WriteJob<'_>) -> Result<Written, EngineError>;

    /// Merges two commits of the file, atomically.
    ///
    /// # Errors
    /// [`EngineError`].
    fn merge(&self, database: DatabaseId, job: &MergeJob<'_>) -> Result<MergeOutcome, EngineError>;

    /// Lists the conflicts of a merge of two commits, in `table` or in all tables, by table and primary key. Skips
    /// `skip` conflicts and returns at most `limit`. Changes nothing and never waits for writers.
    ///
    /// # Errors
    /// [`EngineError::Busy`] if too many calls run at once, or if computing the conflicts takes too long for a
    /// waiting caller. In the latter case [`Engine::prepare_conflicts`] computes and caches them.
    fn conflicts(
        &self,
        database: DatabaseId,
        ours: &CommitHash,
        theirs: &CommitHash,
        table: Option<&str>,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<Conflict>, EngineError>;

    /// Returns `true` if [`Engine::conflicts`] returns [`EngineError::Busy`] for this database unless
    /// [`Engine::prepare_conflicts`] has cached the result. Cheap.
    fn needs_preparing(&self, database: DatabaseId) -> bool;

    /// Computes the result of [`Engine::conflicts`] for two commits, however long that takes, and caches it for a
    /// while. Also caches the pages that callers requested in vain for these commits. Meant for background jobs on
    /// databases for which [`Engine::needs_preparing`] returns `true`: when a head of a pull request moves, and after
    /// `conflicts` returned [`EngineError::Busy`], because the cache may evict the result.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`]. Commits that cannot be merged are not an error here; [`Engine::conflicts`]
    /// reports them.
    fn prepare_conflicts(
        &self,
        database: DatabaseId,
        ours: &CommitHash,
        theirs: &CommitHash,
    ) -> Result<(), EngineError>;

    /// Imports rows into a table as one commit, atomically. Returns the new head, which equals the base if nothing
    /// changed.
    ///
    /// # Errors
    /// [`EngineError::Import`] with the invalid rows.
    fn import(
        &self,
        database: DatabaseId,
        job: &ImportJob<'_>,
        rows: &mut dyn RowSource,
    ) -> Result<CommitHash, EngineError>;

    /// Runs a script as one commit, atomically, while reading it as a stream. Its statements are restricted as in
    /// [`Engine::write`]. Returns the new head, which equals the base if nothing changed.
    ///
    /// # Errors
    /// [`EngineError::Import`] with the first line of the failed statement and the text of its [`SqlFailure`];
    /// [`EngineError::TableExists`]; [`EngineError::NoSuchTable`].
    fn run_script(
        &self,
        database: DatabaseId,
        job: &ScriptJob<'_>,
        script: &mut dyn std::io::Read,
    ) -> Result<CommitHash, EngineError>;

    /// Lists the tables and views that differ between two commits, by name. Differences in indexes and triggers
    /// count.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`].
    fn changed_tables(
        &self,
        database: DatabaseId,
        from: &CommitHash,
        to: &CommitHash,
    ) -> Result<Vec<TableChange>, EngineError>;

    /// Returns a page of the rows of one table that differ between two commits, by primary key.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`] if neither commit has the table.
    fn changed_rows(
        &self,
        database: DatabaseId,
        from: &CommitHash,
        to: &CommitHash,
        table: &str,
        page: &RowPage,
    ) -> Result<ChangedRows, EngineError>;

    /// Lists the user's tables and views at a commit, by name.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`].
    fn tables(&self, database: DatabaseId, at: &CommitHash) -> Result<Vec<TableSchema>, EngineError>;

    /// Lists the user's indexes, triggers and views at a commit. Reads definitions only, never rows. Omits indexes
    /// created by table constraints and the objects of tables that belong to a virtual table.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`].
    fn objects(&self, database: DatabaseId, at: &CommitHash) -> Result<Vec<SchemaObject>, EngineError>;

    /// Checks the file and that each of `heads` is readable. Returns the problems found, worded for the operator.
    ///
    /// # Errors
    /// [`EngineError`] if the check itself cannot run.
    fn verify(&self, database: DatabaseId, heads: &[CommitHash]) -> Result<Vec<String>, EngineError>;
}
