//! The port of SQL sessions, which a deployment's process serves to its clients.
//!
//! The file of a deployment holds the branches and tags of its users, unlike the files of the hub. A session may use
//! the engine's version control within its [`SqlPower`].

use std::path::Path;
use std::time::Duration;

use super::engine::{CancellationToken, EngineError, RowSink};
use crate::entities::{Cell, Signature};
use crate::values::{CommitHash, DatabaseId};

/// The privileges of a session. Each level includes the levels before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SqlPower {
    /// Run read statements.
    Read,
    /// Write, commit, branch, tag and merge.
    Write,
    /// Collect garbage.
    Admin,
}

/// The user of a session. Commits, merges and tags record the user as their author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCaller {
    /// Name of the user.
    pub name: String,
    /// Primary email address of the user.
    pub email: String,
}

/// The parameters of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRequest {
    /// The database to open.
    pub database: DatabaseId,
    /// The initial branch. `None` is the default branch.
    pub branch: Option<String>,
    /// The privileges of the session.
    pub power: SqlPower,
    /// The user of the session.
    pub caller: SessionCaller,
    /// Whether the session starts with foreign keys enforced.
    pub foreign_keys: bool,
}

/// Arguments of a statement.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Arguments {
    /// No arguments.
    #[default]
    None,
    /// By position, starting with the first parameter.
    Positional(Vec<Cell>),
    /// By name, with or without the prefix `:`, `@` or `$`.
    Named(Vec<(String, Cell)>),
}

/// The bounds of a statement.
#[derive(Debug, Clone)]
pub struct StatementBounds {
    /// Time limit for computation. Time spent in the sink does not count.
    pub timeout: Duration,
    /// Cancels the statement. The error is the same as for a timeout.
    pub canceled: CancellationToken,
    /// Whether the caller holds the write turn of the database; see [`SessionError::NeedsTurn`].
    pub has_turn: bool,
    /// Whether each write transaction becomes a commit whose author is the caller.
    pub commits_transactions: bool,
}

/// The report of a completed statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatementReport {
    /// Number of rows that the statement inserted, updated or deleted, without changes by triggers.
    pub rows_affected: u64,
    /// Row id of the last inserted row, if the statement inserted rows.
    pub last_insert_rowid: Option<i64>,
    /// Whether the statement may have written.
    pub wrote: bool,
    /// Whether the statement may have moved a branch or a tag.
    pub moved_refs: bool,
}

/// The description of a statement that was prepared and not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementDescription {
    /// Names of the parameters with their prefixes, in order. `None` for unnamed parameters.
    pub parameters: Vec<Option<String>>,
    /// Names of the columns with their declared types.
    pub columns: Vec<(String, Option<String>)>,
    /// Whether the statement begins with `EXPLAIN`.
    pub is_explain: bool,
    /// Whether the statement cannot change anything, including through functions that it calls.
    pub is_readonly: bool,
}

/// An error of a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The statement writes and was not started. The caller has to repeat it with [`StatementBounds::has_turn`]. One
    /// session at a time holds the write turn of a database, and keeps it while its transaction is open.
    #[error("the statement has to wait for its turn to write")]
    NeedsTurn {
        /// Whether the statement frees space: it drops objects or collects garbage, and writes no rows.
        frees_space: bool,
    },
    /// The text holds no statement.
    #[error("the text holds no SQL statement")]
    NoStatement,
    /// The text holds more than one statement.
    #[error("the text holds more than one SQL statement")]
    SeveralStatements,
    /// The arguments do not match the parameters.
    #[error("{0}")]
    Arguments(String),
    /// The statement exceeded its time limit, in milliseconds, or was canceled.
    #[error("the statement ran longer than {0} ms")]
    TimedOut(u64),
    /// The engine rejected the statement.
    #[error("{message}")]
    Statement {
        /// Name of the primary result code, in upper case and without prefix, such as `CONSTRAINT`.
        code: &'static str,
        /// Message of the engine.
        message: String,
    },
    /// The branch does not exist.
    #[error("no branch {0}")]
    NoSuchBranch(String),
    /// The engine failed for a reason other than the statement.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A session. Dropping a session rolls back its transaction.
pub trait SqlSession: Send {
    /// Runs the single statement in `sql`.
    ///
    /// # Errors
    /// See [`SessionError`]. An error may or may not end the transaction; [`SqlSession::is_autocommit`] reports which.
    fn run(
        &mut self,
        sql: &str,
        arguments: &Arguments,
        bounds: &StatementBounds,
        sink: &mut dyn RowSink,
    ) -> Result<StatementReport, SessionError>;

    /// Runs the first of several statements without arguments, and discards its rows. Returns the number of bytes
    /// consumed, which is the whole text if no statement is left.
    ///
    /// # Errors
    /// As for [`SqlSession::run`].
    fn step(&mut self, sql: &str, bounds: &StatementBounds) -> Result<(usize, StatementReport), SessionError>;

    /// Prepares the first statement in `sql` without running it.
    ///
    /// # Errors
    /// As for [`SqlSession::run`].
    fn describe(&mut self, sql: &str) -> Result<StatementDescription, SessionError>;

    /// Returns `true` if no transaction is open.
    fn is_autocommit(&self) -> bool;

    /// Returns `true` if the connection can be reused for a session with the same parameters: it has no transaction,
    /// no temporary object, no changed setting, and is on its initial branch.
    fn is_clean(&self) -> bool;

    /// Rolls back an open transaction.
    ///
    /// # Errors
    /// [`SessionError::Engine`] if the session has become unusable.
    fn roll_back(&mut self) -> Result<(), SessionError>;
}

/// A branch and its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchHead {
    /// Name of the branch.
    pub branch: String,
    /// Head of the branch.
    pub commit: CommitHash,
}

/// The databases of a deployment: files with their own branches and tags, and sessions on them.
pub trait SessionEngine: Send + Sync {
    /// Creates a database with one branch, `main`, that holds one empty commit.
    ///
    /// # Errors
    /// [`EngineError`]. Nothing of the database remains after an error.
    fn create_served(&self, database: DatabaseId, author: &Signature, message: &str) -> Result<(), EngineError>;

    /// Creates a database from a copy of a hub file, with a single branch at `commit` and no tags. Replaces an
    /// existing database with this id.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`] if the file does not have the commit; other [`EngineError`]s. Nothing of the
    /// database remains after an error.
    fn seed(&self, database: DatabaseId, from: &Path, branch: &str, commit: &CommitHash) -> Result<(), EngineError>;

    /// Replaces a database by a file that [`SessionEngine::copy_out`] created.
    ///
    /// # Errors
    /// [`EngineError`] if the file is not a database of the engine or cannot be copied.
    fn put_back(&self, database: DatabaseId, from: &Path) -> Result<(), EngineError>;

    /// Copies the file of a database as a consistent snapshot. Returns the size of the copy in bytes.
    ///
    /// # Errors
    /// [`EngineError`].
    fn copy_out(&self, database: DatabaseId, to: &Path) -> Result<u64, EngineError>;

    /// Opens a session, or reuses an idle one with the same parameters.
    ///
    /// # Errors
    /// [`SessionError::NoSuchBranch`], [`SessionError::Engine`].
    fn session(&self, request: &SessionRequest) -> Result<Box<dyn SqlSession>, SessionError>;

    /// Lists all branches with their heads, the default branch first and the others by name.
    ///
    /// # Errors
    /// [`EngineError`].
    fn heads(&self, database: DatabaseId) -> Result<Vec<BranchHead>, EngineError>;

    /// Checks the whole file. Returns the problems found, or an empty list if the file is sound.
    ///
    /// # Errors
    /// [`EngineError`] if the file cannot be read at all.
    fn check(&self, database: DatabaseId) -> Result<Vec<String>, EngineError>;

    /// Returns the size of the file in bytes.
    ///
    /// # Errors
    /// [`EngineError`].
    fn served_size_bytes(&self, database: DatabaseId) -> Result<u64, EngineError>;

    /// Removes a database. Does nothing if there is none. Open sessions continue to read the old file.
    ///
    /// # Errors
    /// [`EngineError`].
    fn drop_served(&self, database: DatabaseId) -> Result<(), EngineError>;

    /// Collects garbage, which reclaims the space of unreachable data. The caller holds the write turn.
    ///
    /// # Errors
    /// [`EngineError`].
    fn collect_garbage(&self, database: DatabaseId) -> Result<(), EngineError>;

    /// Returns the version of the engine, such as `0.51.6`.
    fn version(&self) -> String;
}
