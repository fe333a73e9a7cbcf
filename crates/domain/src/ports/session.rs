//! SQL sessions: what a deployment's own process serves to its clients.
//!
//! Unlike the files of the hub, a deployment's file has the branches and tags of its users in it, and a session may use the version
//! control of the engine, as far as its [`SqlPower`] goes.

use std::path::Path;
use std::time::Duration;

use super::engine::{CancellationToken, EngineError, RowSink};
use crate::entities::{Cell, Signature};
use crate::values::{CommitHash, DatabaseId};

/// What a session may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SqlPower {
    /// Read.
    Read,
    /// Also write, commit, branch, tag, merge.
    Write,
    /// Also collect garbage.
    Admin,
}

/// Who speaks through a session; commits, merges and tags carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCaller {
    /// Name of the user.
    pub name: String,
    /// Primary address of the user.
    pub email: String,
}

/// A session to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRequest {
    /// The database.
    pub database: DatabaseId,
    /// The branch it starts on; `None` is the default branch.
    pub branch: Option<String>,
    /// What it may do.
    pub power: SqlPower,
    /// Who asks.
    pub caller: SessionCaller,
    /// Whether foreign keys are enforced from the start.
    pub foreign_keys: bool,
}

/// Arguments of a statement.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Arguments {
    /// None at all.
    #[default]
    None,
    /// By position, from the first.
    Positional(Vec<Cell>),
    /// By name, with or without its `:`, `@` or `$`.
    Named(Vec<(String, Cell)>),
}

/// What bounds a statement.
#[derive(Debug, Clone)]
pub struct StatementBounds {
    /// Time the engine may compute; waiting for the sink does not count.
    pub timeout: Duration,
    /// Ends the statement early, as if its time had run out.
    pub canceled: CancellationToken,
    /// Whether the caller has the database's turn to write; see [`SessionError::NeedsTurn`].
    pub has_turn: bool,
    /// Whether each write transaction is to become a commit by the caller.
    pub commits_transactions: bool,
}

/// How a statement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatementReport {
    /// Rows that it inserted, updated or deleted; what triggers did does not count.
    pub rows_affected: u64,
    /// Key of the last row, if it inserted any.
    pub last_insert_rowid: Option<i64>,
    /// Whether it changed something or may have.
    pub wrote: bool,
    /// Whether it may have moved a branch or a tag.
    pub moved_refs: bool,
}

/// A statement that was looked at and not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementDescription {
    /// Names of its parameters with their mark, in order; `None` for those without.
    pub parameters: Vec<Option<String>>,
    /// Names of its columns with their declared types.
    pub columns: Vec<(String, Option<String>)>,
    /// Whether it begins with `EXPLAIN`.
    pub is_explain: bool,
    /// Whether it changes nothing, whatever functions it calls.
    pub is_readonly: bool,
}

/// A statement did not run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// It writes, and nothing of it ran: it is to be given again with [`StatementBounds::has_turn`]. One session at a time may have the
    /// turn of a database, and keeps it as long as a transaction is open.
    #[error("the statement has to wait for its turn to write")]
    NeedsTurn {
        /// Whether the statement makes room: it drops something or collects garbage, and writes no rows.
        frees_space: bool,
    },
    /// The text holds no statement.
    #[error("the text holds no SQL statement")]
    NoStatement,
    /// The text holds several.
    #[error("the text holds more than one SQL statement")]
    SeveralStatements,
    /// The arguments do not fit the parameters.
    #[error("{0}")]
    Arguments(String),
    /// Ran longer than allowed, or nobody waits any more.
    #[error("the statement ran longer than {0} ms")]
    TimedOut(u64),
    /// The engine says so: the name of its primary result code, such as `CONSTRAINT`, and its message.
    #[error("{message}")]
    Statement {
        /// Upper case, without a prefix.
        code: &'static str,
        /// As the engine words it.
        message: String,
    },
    /// There is no such branch.
    #[error("no branch {0}")]
    NoSuchBranch(String),
    /// Not the statement is to blame.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A session. Dropping it ends its transaction without keeping what it did.
pub trait Session: Send {
    /// Runs the one statement of `sql`.
    ///
    /// # Errors
    /// See [`SessionError`]. Whether a transaction goes on after an error is for [`Session::is_autocommit`] to say.
    fn run(
        &mut self,
        sql: &str,
        arguments: &Arguments,
        bounds: &StatementBounds,
        sink: &mut dyn RowSink,
    ) -> Result<StatementReport, SessionError>;

    /// Runs the first of several statements, without arguments and without looking at its rows; gives how many bytes of the text are done
    /// with. That is all of it when no statement is left.
    ///
    /// # Errors
    /// As for [`Session::run`].
    fn step(&mut self, sql: &str, bounds: &StatementBounds) -> Result<(usize, StatementReport), SessionError>;

    /// Looks at the first statement of `sql` and runs nothing.
    ///
    /// # Errors
    /// As for [`Session::run`].
    fn describe(&mut self, sql: &str) -> Result<StatementDescription, SessionError>;

    /// Whether no transaction is open.
    fn is_autocommit(&self) -> bool;

    /// Whether another session, opened in the same way, could go on in its place: no transaction, no temporary object, no changed setting, no
    /// other branch.
    fn is_clean(&self) -> bool;

    /// Ends an open transaction and keeps nothing of it.
    ///
    /// # Errors
    /// [`SessionError::Engine`] when the session is of no use any more.
    fn roll_back(&mut self) -> Result<(), SessionError>;
}

/// Where a branch stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchHead {
    /// Its name.
    pub branch: String,
    /// Its head.
    pub commit: CommitHash,
}

/// The databases of one deployment: files with branches and tags of their own, and sessions on them.
pub trait SessionEngine: Send + Sync {
    /// Makes a database with one branch `main` that holds one empty commit.
    ///
    /// # Errors
    /// [`EngineError`]; then nothing is left of it.
    fn create_served(&self, database: DatabaseId, author: &Signature, message: &str) -> Result<(), EngineError>;

    /// Makes a database from a copy of a file of the hub: one branch that stands at `commit`, no other branch and no tag. A database of this
    /// id that is there already is replaced.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`] when the file lacks it; [`EngineError`]. Nothing is left of it then.
    fn seed(&self, database: DatabaseId, from: &Path, branch: &str, commit: &CommitHash) -> Result<(), EngineError>;

    /// Puts a file that was copied out by [`SessionEngine::copy_out`] in the place of a database.
    ///
    /// # Errors
    /// [`EngineError`] when it is not a database of the engine, or cannot be copied.
    fn put_back(&self, database: DatabaseId, from: &Path) -> Result<(), EngineError>;

    /// Copies the file of a database out as it is at one instant; gives its size in bytes.
    ///
    /// # Errors
    /// [`EngineError`].
    fn copy_out(&self, database: DatabaseId, to: &Path) -> Result<u64, EngineError>;

    /// Opens a session, or takes one up that is idle.
    ///
    /// # Errors
    /// [`SessionError::NoSuchBranch`], [`SessionError::Engine`].
    fn session(&self, request: &SessionRequest) -> Result<Box<dyn Session>, SessionError>;

    /// All branches with their heads, the default branch first, the others by name.
    ///
    /// # Errors
    /// [`EngineError`].
    fn heads(&self, database: DatabaseId) -> Result<Vec<BranchHead>, EngineError>;

    /// Looks through the whole file; gives what is wrong with it, nothing when it is sound.
    ///
    /// # Errors
    /// [`EngineError`] when it cannot be read at all.
    fn check(&self, database: DatabaseId) -> Result<Vec<String>, EngineError>;

    /// Size of the file in bytes.
    ///
    /// # Errors
    /// [`EngineError`].
    fn served_size_bytes(&self, database: DatabaseId) -> Result<u64, EngineError>;

    /// Removes a database; it may be gone already. Its sessions go on answering from what was there.
    ///
    /// # Errors
    /// [`EngineError`].
    fn drop_served(&self, database: DatabaseId) -> Result<(), EngineError>;

    /// Gives space back that nothing names any more. The caller has the turn to write.
    ///
    /// # Errors
    /// [`EngineError`].
    fn collect_garbage(&self, database: DatabaseId) -> Result<(), EngineError>;

    /// Version of the engine, such as `0.51.6`.
    fn version(&self) -> String;
}
