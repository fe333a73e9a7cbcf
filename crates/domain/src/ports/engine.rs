//! The engine: immutable commits with their tables and history, one file per database.
//!
//! The engine knows no branch and no tag of the user: every call names commits. A commit that no ref names is garbage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::formats::{FormatError, RowSource};
use crate::entities::{
    Cell, Commit, Conflict, ImportMode, LogEntry, LogPosition, RowChange, SchemaObject, Side, Signature, TableChange,
    TableSchema,
};
use crate::values::{CommitHash, DatabaseId};

/// A statement failed, for a reason the person who wrote it should read. `Display` is the fixed text of the contracts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqlFailure {
    /// Does not parse. `position` is the 1-based byte position just after the offending token `near`.
    #[error("query error: Error parsing SQL: syntax error at position {position} near '{near}'.")]
    Syntax {
        /// Just after the token.
        position: usize,
        /// The token; empty where the text ends too early.
        near: String,
    },
    /// A read of more than one statement.
    #[error("query error: Error parsing SQL: one statement at a time")]
    SeveralStatements,
    /// A `SHOW` that is not answered.
    #[error("query error: Error parsing SQL: unsupported SHOW statement")]
    UnsupportedShow,
    /// No such table or view.
    #[error("query error: table not found: {0}")]
    NoSuchTable(String),
    /// A read that would write.
    #[error("query error: only read statements are allowed here")]
    NotARead,
    /// A statement that is never allowed; holds its first word as written.
    #[error("query error: statement not allowed: {0}")]
    NotAllowed(String),
    /// Ran longer than allowed, in milliseconds.
    #[error("query error: query timed out after {0} ms")]
    TimedOut(u64),
    /// Anything else the engine says.
    #[error("query error: {0}")]
    Engine(String),
}

/// The engine could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The statements are to blame. `statement` counts from 1.
    #[error("{failure}")]
    Sql {
        /// Why.
        failure: SqlFailure,
        /// Which statement of several.
        statement: u32,
    },
    /// The imported file is to blame.
    #[error("the import was refused")]
    Import(#[source] FormatError),
    /// No commit of this hash in the file.
    #[error("commit {0} is not in the database")]
    NoSuchCommit(CommitHash),
    /// The named table is not in the commit.
    #[error("table {0} is not in the commit")]
    NoSuchTable(String),
    /// The table to be created is in the commit already.
    #[error("table {0} exists")]
    TableExists(String),
    /// Two sides cannot be merged for a reason that is no list of conflicts.
    #[error("cannot merge: {0}")]
    CannotMerge(String),
    /// Took longer than allowed, in milliseconds.
    #[error("took longer than {0} ms")]
    TimedOut(u64),
    /// Too many calls computed for long at once, or held the memory there is; nothing is wrong, and later it may be done.
    #[error("too many long or large calls at once")]
    Busy,
    /// The file is damaged or a chunk of it is gone.
    #[error("the database file is damaged: {0}")]
    Damaged(String),
    /// A commit cannot be read; the rest of the database may be sound.
    #[error("commit {commit} cannot be read: {detail}")]
    DamagedCommit {
        /// The commit.
        commit: CommitHash,
        /// What was done, and what went wrong.
        detail: String,
    },
    /// No room left on disk, or another passing trouble.
    #[error("the engine is unavailable: {0}")]
    Unavailable(String),
    /// Any other fault; for the operator.
    #[error("the engine failed: {context}")]
    Fault {
        /// What was tried.
        context: String,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name or alias.
    pub name: String,
    /// Declared type of the table column it shows, in upper case; `None` for expressions.
    pub declared_type: Option<String>,
    /// Whether it shows a column of a primary key.
    pub is_primary_key: bool,
    /// The table it shows a column of; empty for expressions.
    pub source_table: String,
}

/// A value of a result row, borrowed from the engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueRef<'a> {
    /// No value.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// A double; may be infinite.
    Real(f64),
    /// Text as stored; not necessarily valid UTF-8.
    Text(&'a [u8]),
    /// Bytes.
    Blob(&'a [u8]),
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// More, please.
    Continue,
    /// Enough.
    Stop,
}

/// Takes the rows of a read as they come.
pub trait RowSink {
    /// Called once, before any row.
    fn columns(&mut self, columns: &[Column]) -> Flow;

    /// Called for each row; as many values as columns.
    fn row(&mut self, row: &[ValueRef<'_>]) -> Flow;
}

/// Says that nobody waits for a result any more. Clones say the same.
#[derive(Debug, Clone, Default)]
pub struct CancellationToken(Arc<AtomicBool>);

impl CancellationToken {
    /// Says so.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was said.
    pub fn is_canceled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A read statement of a stranger.
#[derive(Debug, Clone)]
pub struct ReadQuery<'a> {
    /// One statement.
    pub sql: &'a str,
    /// Time the engine may compute; waiting for the sink does not count.
    pub timeout: Duration,
    /// Ends the statement early, as if its time had run out.
    pub canceled: CancellationToken,
}

impl<'a> ReadQuery<'a> {
    /// A query that nobody will cancel.
    pub fn new(sql: &'a str, timeout: Duration) -> Self {
        Self { sql, timeout, canceled: CancellationToken::default() }
    }
}

/// How a read went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadReport {
    /// Whether the same statement at the same commit always gives the same rows.
    pub deterministic: bool,
}

/// Statements of a stranger to run on a commit, and a commit to merge afterwards.
#[derive(Debug, Clone)]
pub struct WriteJob<'a> {
    /// The commit to start from.
    pub base: &'a CommitHash,
    /// One or more statements.
    pub statements: &'a str,
    /// Message of the commit.
    pub message: &'a str,
    /// Merge this afterwards, unless it is contained already, with this message.
    pub then_merge: Option<(&'a CommitHash, &'a str)>,
    /// Author of the commits.
    pub author: &'a Signature,
    /// Time the statements may take.
    pub timeout: Duration,
}

/// Two commits to merge.
#[derive(Debug, Clone)]
pub struct MergeJob<'a> {
    /// The side merged into.
    pub ours: &'a CommitHash,
    /// The side merged from; already in the file (see [`Engine::fetch`]).
    pub theirs: &'a CommitHash,
    /// Message of the merge commit.
    pub message: &'a str,
    /// Its author.
    pub author: &'a Signature,
    /// Who wins in which table.
    pub resolve: &'a std::collections::BTreeMap<String, Side>,
    /// Time it may take.
    pub timeout: Duration,
}

/// How a merge or a write ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The new head; equal to the old one when there was nothing to do.
    Head(CommitHash),
    /// Nothing changed: tables in conflict, with how many conflicts each.
    Conflicts(Vec<(String, u64)>),
}

/// How a write ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// As a merge ends, which may be part of it.
    pub outcome: MergeOutcome,
    /// Rows that its statements inserted, updated or deleted; what triggers did to others counts too.
    pub rows_affected: u64,
}

/// All rows of a table.
#[derive(Debug, Clone)]
pub struct TableScan<'a> {
    /// The table, in any letter case.
    pub table: &'a str,
    /// Time the engine may compute; waiting for the sink does not count.
    pub timeout: Duration,
    /// Ends the scan early, as if its time had run out.
    pub canceled: CancellationToken,
}

/// What a value of a row is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// The same, after the value took on the affinity of the column.
    Equals,
    /// Anything else; NULL differs from every value.
    Differs,
    /// The value is somewhere in it, whatever the case of ASCII letters.
    Contains,
    /// Before the value in the order of the column.
    Less,
    /// After the value.
    More,
    /// NULL; the value does not matter.
    IsNull,
    /// Anything but NULL.
    IsNotNull,
}

/// A test that rows have to pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowTest {
    /// The column.
    pub column: String,
    /// How it is tested.
    pub test: Test,
    /// Against what, as text.
    pub value: String,
}

/// The column rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowOrder<'a> {
    /// The column.
    pub column: &'a str,
    /// Whether the largest come first.
    pub descending: bool,
}

/// Some rows of a table or view, for somebody to look at.
///
/// A row of a table has a place: its value in the column rows are sorted by, then what its key adds to it. A reading that begins
/// behind a place costs the same wherever that is, as long as an index knows the order. Rows of a view have no place.
#[derive(Debug, Clone)]
pub struct Selection<'a> {
    /// The table or view, in any letter case.
    pub table: &'a str,
    /// What rows have to pass, all of it; the columns exist.
    pub tests: &'a [RowTest],
    /// What they are sorted by, then by primary key in the same direction; the column exists.
    pub order: Option<RowOrder<'a>>,
    /// Whether the order is read from its end: the last row comes first. Rows of a view are only read forwards.
    pub backwards: bool,
    /// The place to begin behind, in the direction of reading; the engine gave it for the same order of the same table.
    pub after: Option<&'a [Cell]>,
    /// Rows to leave out first; each costs what reading it would.
    pub skip: u64,
    /// The most rows to give.
    pub limit: u64,
    /// Time the engine may compute; waiting for the sink does not count.
    pub timeout: Duration,
    /// Ends it early, as if its time had run out.
    pub canceled: CancellationToken,
}

/// Where the rows of a [`Selection`] lie.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selected {
    /// The place of the first row that was given; `None` where there is none, and in a view.
    pub first: Option<Vec<Cell>>,
    /// The place of the last.
    pub last: Option<Vec<Cell>>,
    /// Whether more rows follow, in the direction of reading.
    pub more: bool,
}

/// A column an import fills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportColumn {
    /// Name in the table.
    pub name: String,
    /// Declared type for a new table; empty for none.
    pub declared_type: String,
}

/// What an import does to the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportTarget {
    /// Make it with these key columns (`NOT NULL`); it must not exist, unless `overwrite`.
    New {
        /// Columns of the primary key, in order.
        primary_key: Vec<String>,
        /// Drop what was there.
        overwrite: bool,
    },
    /// Upsert by its primary key.
    Update,
    /// Keep its definition, exchange all rows.
    Replace,
}

/// Rows to bring into a table, as one commit.
#[derive(Debug, Clone)]
pub struct ImportJob<'a> {
    /// The commit to start from.
    pub base: &'a CommitHash,
    /// The table.
    pub table: &'a str,
    /// What to do with it.
    pub target: &'a ImportTarget,
    /// The columns, in the order the source gives values.
    pub columns: &'a [ImportColumn],
    /// Message of the commit.
    pub message: &'a str,
    /// Its author.
    pub author: &'a Signature,
    /// Time it may take.
    pub timeout: Duration,
}

/// A script to run on a commit, as one commit.
#[derive(Debug, Clone)]
pub struct ScriptJob<'a> {
    /// The commit to start from.
    pub base: &'a CommitHash,
    /// The table the script is to leave behind, and what becomes of it first: [`ImportMode::Create`] wants it absent,
    /// [`ImportMode::Overwrite`] drops it if it is there, [`ImportMode::Update`] wants it present, [`ImportMode::Replace`]
    /// wants it present and deletes its rows.
    pub target: Option<(&'a str, ImportMode)>,
    /// Bytes of one statement.
    pub statement_bytes: usize,
    /// Message of the commit.
    pub message: &'a str,
    /// Its author.
    pub author: &'a Signature,
    /// Time it may take.
    pub timeout: Duration,
}

/// A page of changed rows of a table: start after this key, at most so many.
#[derive(Debug, Clone)]
pub struct RowPage {
    /// Key of the last row of the page before.
    pub after: Option<Vec<Cell>>,
    /// The most rows to give.
    pub limit: usize,
    /// Bytes of values after which there are enough rows; one is always given.
    pub bytes: usize,
}

/// Changed rows of a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChangedRows {
    /// The rows, by primary key.
    pub rows: Vec<RowChange>,
    /// Whether there may be more after them; if not, these were the last.
    pub more: bool,
}

/// Says which commits a database shows. Its file may hold more: what deleted branches left behind, what was fetched for pulls, what a fork took
/// over. Those count as absent.
pub trait Reachability: Send + Sync {
    /// Returns `true` if a branch, tag, release or pull of the database names `commit` or one of its descendants. `descends` returns whether one
    /// of the commits it is given is `commit` or descends from it.
    ///
    /// # Errors
    /// [`EngineError`] when that cannot be looked up.
    fn reaches(
        &self,
        database: DatabaseId,
        commit: &CommitHash,
        descends: &mut dyn FnMut(&[CommitHash]) -> Result<bool, EngineError>,
    ) -> Result<bool, EngineError>;
}

/// Stores commits; runs SQL on them.
///
/// Any number of calls may run at once; those that write to one database wait for each other in order of arrival.
pub trait Engine: Send + Sync {
    /// Makes the file of a new database with one empty commit. Making it again replaces it.
    ///
    /// # Errors
    /// [`EngineError`].
    fn create(&self, database: DatabaseId, author: &Signature, message: &str) -> Result<CommitHash, EngineError>;

    /// Copies a database with its whole history, also while it is written to. Copying again replaces the copy.
    ///
    /// # Errors
    /// [`EngineError`].
    fn copy(&self, from: DatabaseId, to: DatabaseId) -> Result<(), EngineError>;

    /// Removes a database; removing nothing is fine.
    ///
    /// # Errors
    /// [`EngineError`].
    fn remove(&self, database: DatabaseId) -> Result<(), EngineError>;

    /// The databases that have a file here.
    ///
    /// # Errors
    /// [`EngineError`].
    fn list(&self) -> Result<Vec<DatabaseId>, EngineError>;

    /// Bytes on disk.
    ///
    /// # Errors
    /// [`EngineError`].
    fn size_bytes(&self, database: DatabaseId) -> Result<u64, EngineError>;

    /// Reads a commit; `None` when it is not in the file.
    ///
    /// # Errors
    /// [`EngineError`].
    fn commit(&self, database: DatabaseId, hash: &CommitHash) -> Result<Option<Commit>, EngineError>;

    /// Whether `ancestor` is `descendant` or one of its ancestors.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`] when `descendant` is not in the file.
    fn is_ancestor(
        &self,
        database: DatabaseId,
        ancestor: &CommitHash,
        descendant: &CommitHash,
    ) -> Result<bool, EngineError>;

    /// Whether one of `heads` is `commit` or descends from it; heads that are not in the file descend from nothing.
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

    /// From now on, users' statements find only those commits by their hash that `reachability` says the database shows, and what the commit
    /// they run at descends from. Without it they find every commit of the file. The first call counts.
    fn limit_history(&self, reachability: std::sync::Arc<dyn Reachability>);

    /// The best common ancestor.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`].
    fn merge_base(
        &self,
        database: DatabaseId,
        a: &CommitHash,
        b: &CommitHash,
    ) -> Result<Option<CommitHash>, EngineError>;

    /// Commits of a history from a position on: children before parents, then newest first. The time it takes depends on `limit` and on how many
    /// commits lie between the two ends of the position, not on how far that is from the head.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`].
    fn log(&self, database: DatabaseId, at: &LogPosition, limit: usize) -> Result<Vec<LogEntry>, EngineError>;

    /// Brings a commit with its history from one database into another; nothing happens when it is there.
    ///
    /// Never waits for the writers of the source. Those of the target wait for parts of it only, and it for them: not for a caller that is to be
    /// answered at once. It may copy the file of the source for a while.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`] when the source lacks it.
    fn fetch(&self, into: DatabaseId, from: DatabaseId, commit: &CommitHash) -> Result<(), EngineError>;

    /// Runs one read statement of a stranger at a commit.
    ///
    /// # Errors
    /// [`EngineError::Sql`] when the statement is to blame.
    fn read(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        query: &ReadQuery<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<ReadReport, EngineError>;

    /// Gives all rows of a table at a commit, by primary key; without one, by row id. Says what is left of the time.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], also for a view; [`EngineError::TimedOut`].
    fn scan(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        scan: &TableScan<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Duration, EngineError>;

    /// Gives some rows of a table or view at a commit, and says where they lie.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`]; [`EngineError::Sql`] when the statement of a view is to blame, time ran out, or the place is
    /// none of this order.
    fn rows(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        wanted: &Selection<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Selected, EngineError>;

    /// How many rows of a table or view pass these tests at a commit.
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

    /// Runs statements of a stranger on a commit, as one commit, then merges; all or nothing.
    ///
    /// # Errors
    /// [`EngineError::Sql`] when a statement is to blame.
    fn write(&self, database: DatabaseId, job: &WriteJob<'_>) -> Result<Written, EngineError>;

    /// Merges two commits of the file; all or nothing.
    ///
    /// # Errors
    /// [`EngineError`].
    fn merge(&self, database: DatabaseId, job: &MergeJob<'_>) -> Result<MergeOutcome, EngineError>;

    /// What a merge of two commits would leave unsettled, in `table` or everywhere, by table, then primary key; `skip` of
    /// them left out, at most `limit` given. Changes nothing, and never waits for writers.
    ///
    /// # Errors
    /// [`EngineError::Busy`] when too many are asked for at once, or when finding them takes too much for a caller that waits; then, unless they
    /// are remembered, they are there after [`Engine::prepare_conflicts`].
    fn conflicts(
        &self,
        database: DatabaseId,
        ours: &CommitHash,
        theirs: &CommitHash,
        table: Option<&str>,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<Conflict>, EngineError>;

    /// Whether [`Engine::conflicts`] answers [`EngineError::Busy`] for this database until [`Engine::prepare_conflicts`] has found the answer. Cheap.
    fn needs_preparing(&self, database: DatabaseId) -> bool;

    /// Finds what [`Engine::conflicts`] answers for two commits, however long it takes, and remembers it for a while, with everything else that
    /// was asked about these commits in vain. For background jobs, where [`Engine::needs_preparing`] says so: when a head of a pull moves, and after
    /// `conflicts` answered [`EngineError::Busy`], as what is remembered may be forgotten.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`]. Commits that cannot be merged are no error: [`Engine::conflicts`] says so.
    fn prepare_conflicts(
        &self,
        database: DatabaseId,
        ours: &CommitHash,
        theirs: &CommitHash,
    ) -> Result<(), EngineError>;

    /// Brings rows into a table as one commit; all or nothing. Gives the new head, equal to the base when nothing changed.
    ///
    /// # Errors
    /// [`EngineError::Import`] with the rows to blame.
    fn import(
        &self,
        database: DatabaseId,
        job: &ImportJob<'_>,
        rows: &mut dyn RowSource,
    ) -> Result<CommitHash, EngineError>;

    /// Runs a script, read as it comes, as one commit; all or nothing. Its statements are held to what [`Engine::write`] allows.
    /// Gives the new head, equal to the base when nothing changed.
    ///
    /// # Errors
    /// [`EngineError::Import`] with the line on which the statement to blame begins and the text of its [`SqlFailure`];
    /// [`EngineError::TableExists`], [`EngineError::NoSuchTable`].
    fn run_script(
        &self,
        database: DatabaseId,
        job: &ScriptJob<'_>,
        script: &mut dyn std::io::Read,
    ) -> Result<CommitHash, EngineError>;

    /// The tables and views that differ between two commits, by name. One whose indexes or triggers differ is among them.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`].
    fn changed_tables(
        &self,
        database: DatabaseId,
        from: &CommitHash,
        to: &CommitHash,
    ) -> Result<Vec<TableChange>, EngineError>;

    /// The rows of one table that differ between two commits, by primary key, as many as a page takes.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`] when neither commit has the table.
    fn changed_rows(
        &self,
        database: DatabaseId,
        from: &CommitHash,
        to: &CommitHash,
        table: &str,
        page: &RowPage,
    ) -> Result<ChangedRows, EngineError>;

    /// The user's tables and views at a commit, by name.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`].
    fn tables(&self, database: DatabaseId, at: &CommitHash) -> Result<Vec<TableSchema>, EngineError>;

    /// The indexes, triggers and views of the user at a commit. Reads definitions only, never rows. An index that a constraint of its table made is
    /// left out, and so are those of tables that belong to a virtual table.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`].
    fn objects(&self, database: DatabaseId, at: &CommitHash) -> Result<Vec<SchemaObject>, EngineError>;

    /// Checks the file and that each of `heads` is readable; gives what is wrong, in words for the operator.
    ///
    /// # Errors
    /// [`EngineError`] when the check itself could not run.
    fn verify(&self, database: DatabaseId, heads: &[CommitHash]) -> Result<Vec<String>, EngineError>;
}
