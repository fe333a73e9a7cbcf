//! Errors of the engine.

use crate::ports::formats::FormatError;
use crate::values::CommitHash;

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
    /// The file has a format that is newer than those that the engine opens. A newer release of the program wrote it.
    #[error(
        "the file of this database has format {found}, and this release of the server knows formats up to {newest}; run \
         the release that wrote it, or a newer one"
    )]
    UnknownFormat {
        /// The format of the file.
        found: u32,
        /// The newest format that the engine opens.
        newest: u32,
    },
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
