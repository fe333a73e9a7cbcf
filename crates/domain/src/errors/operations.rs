//! Errors of operations, uploads and imports.

use super::PortError;
use super::databases::{AccessError, RefError};
use crate::values::{CommitHash, RefName, Timestamp};

/// A quota of an owner that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuotaError {
    /// The owner's databases, uploads and stored statements take all bytes that an owner may use.
    #[error("the owner has used its storage of {0} bytes; delete databases, or ask the administrator for more")]
    Bytes(u64),
    /// The owner's operations of the last 24 hours have reached the limit.
    #[error("the owner has used its {limit} operations a day; try again in {retry_after_seconds} s")]
    Operations {
        /// Operations in 24 hours.
        limit: u64,
        /// Seconds until the next operation is accepted.
        retry_after_seconds: u32,
    },
}

/// Errors of operations.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// The operation does not exist or is hidden from the caller.
    #[error("no such operation")]
    NoSuchOperation,
    /// The caller may read the operation but not cancel it.
    #[error("only the creator or a user with write access can cancel this operation")]
    Denied,
    /// Users may list only the operations they created.
    #[error("you can list only your own operations across all databases")]
    NotYours,
    /// The operation is no longer queued. Only queued operations can be canceled.
    #[error("the operation is no longer queued")]
    NotQueued,
    /// The queue of operations is full.
    #[error("{0} operations are waiting on this database; try again when some have finished")]
    QueueFull(u64),
    /// A quota of the owner is used up.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// The start branch does not exist.
    #[error("no branch '{0}'")]
    NoSuchBranch(String),
    /// The statements of a write would run on another commit than the expected one.
    #[error("the statements would run on commit {0}, not on the expected one")]
    OtherHead(CommitHash),
    /// The branch to create already exists.
    #[error("branch '{0}' already exists")]
    BranchExists(RefName),
    /// The caller may not create databases for this owner.
    #[error("you may not create databases for '{0}'")]
    MayNotCreateFor(String),
    /// The name of the fork is taken, or an unsettled operation creates it.
    #[error("'{0}' already exists or is being created")]
    NameTaken(String),
    /// The new owner has reached the limit of databases.
    #[error("the owner has reached the limit of {0} databases")]
    TooManyDatabases(u64),
    /// The branch cannot be restored to that time.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The rows cannot be edited.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Why rows cannot be edited.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The commit whose rows were edited cannot be determined.
    #[error(transparent)]
    Base(RefError),
    /// There is no such table at the base. Views cannot be edited.
    #[error("table not found: {0}")]
    NoSuchTable(String),
    /// Edits do not fit the table.
    #[error("edits do not fit the table")]
    Rows(Vec<EditFault>),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Why one edit does not fit the table. `row` is its position, from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditFault {
    /// The table has no such column, or it is not one of the primary key.
    #[error("{}", if *in_key { "is not a column of the primary key" } else { "is not a column of the table" })]
    NoSuchColumn {
        /// Position of the edit.
        row: usize,
        /// Name of the column.
        column: String,
        /// Whether the key names it.
        in_key: bool,
    },
    /// The key lacks columns.
    #[error("lacks {}", lacking.join(", "))]
    IncompleteKey {
        /// Position of the edit.
        row: usize,
        /// The columns.
        lacking: Vec<String>,
    },
    /// The table has no primary key, so that rows can only be inserted.
    #[error("the table has no primary key: rows can only be inserted")]
    NoKey {
        /// Position of the edit.
        row: usize,
    },
    /// An update sets nothing.
    #[error("must name at least one column")]
    NothingSet {
        /// Position of the edit.
        row: usize,
    },
}

/// Why a branch cannot be restored to a time.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The time has not come yet.
    #[error("the time is in the future")]
    Future,
    /// Changes of branches are not recorded.
    #[error("this server keeps no history of branches")]
    Off,
    /// Changes are recorded only from a later time on.
    #[error("the history of this database does not reach back so far")]
    TooEarly(Timestamp),
    /// The branch did not exist then.
    #[error("no branch '{0}' existed at that time")]
    NoBranch(String),
    /// What the branch named then was removed, and not by its age.
    #[error("what branch '{0}' named at that time was removed from the history")]
    Gone(String),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// A field of an import or of an upload session. Adapters know the names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportField {
    /// Bytes that an upload session announces.
    ContentLength,
    /// Number of parts of an upload session.
    PartCount,
    /// Format of the file.
    FileType,
    /// Branch to import to.
    Branch,
    /// Table to import to.
    Table,
    /// Name of the file.
    FileName,
    /// Branch of the pull request that the import opens.
    PullBranch,
    /// Commit message.
    Message,
    /// Columns of the primary key.
    PrimaryKeys,
    /// New names of columns.
    ColumnMap,
    /// Types of columns.
    ColumnTypes,
    /// Type of the column with this name.
    ColumnType(String),
    /// Delimiter of the file.
    Delimiter,
    /// Encoding of the file.
    Encoding,
    /// The upload session.
    Upload,
    /// Secret of the upload session.
    UploadToken,
    /// Bytes of the file.
    FileSize,
    /// Parts that have arrived.
    Parts,
    /// Checksum over all parts.
    Checksum,
}

/// Errors of uploads and imports.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Invalid fields, each with the rule it breaks.
    #[error("the request has invalid fields")]
    Fields(Vec<(ImportField, String)>),
    /// The file is larger than allowed.
    #[error("a file can have at most {limit} bytes; this one has {size}")]
    TooLarge {
        /// Announced size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A file of unannounced size exceeds the limit, in bytes.
    #[error("the file has more than {0} bytes")]
    FileTooLarge(u64),
    /// A file of unannounced size is empty.
    #[error("the file is empty")]
    EmptyFile,
    /// The user has reached the limit of unused upload sessions.
    #[error("{0} upload sessions are open; use them or wait until they expire")]
    TooManyUploads(u64),
    /// The session is unknown or expired, or has no such part.
    #[error("the upload session is unknown or has expired")]
    NoSuchUpload,
    /// An import has already used the session.
    #[error("the upload was already used by operation {0}")]
    UploadUsed(String),
    /// A part is empty.
    #[error("the part is empty")]
    EmptyPart,
    /// The parts exceed the announced size, in bytes.
    #[error("the parts exceed the announced {0} bytes")]
    PartTooLarge(u64),
    /// The bytes of a part do not match the checksum of the sender.
    #[error("the part does not match its Content-MD5")]
    PartChecksum,
    /// The client disconnected, or the bytes could not be read.
    #[error("the part was cut short")]
    PartCutShort(#[source] std::io::Error),
    /// The target branch does not exist.
    #[error("no branch '{0}'")]
    NoSuchBranch(String),
    /// The queue of operations is full.
    #[error("{0} operations are waiting on this database; try again when some have finished")]
    QueueFull(u64),
    /// A quota of the owner is used up.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}
