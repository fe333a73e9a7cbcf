//! Errors, and the conversion of diesel's errors to those of the port.

use std::time::Duration;

use branchyard_domain::ports::MetadataError;
use diesel::result::{DatabaseErrorKind, Error as DieselError};

/// An error that prevents opening the store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL has an unknown scheme.
    #[error("'{scheme}' is not supported as a metadata store; use sqlite://PATH, a plain path or postgres://…")]
    Scheme {
        /// The scheme, which is the text before `://`.
        scheme: String,
    },
    /// The URL of a Postgres server cannot be read, or asks for what is not supported.
    #[error("the metadata URL cannot be used: {reason}")]
    Url {
        /// What to change. Contains neither user name nor password.
        reason: String,
    },
    /// A SQLite URL without a path.
    #[error("the metadata URL does not name a file")]
    NoPath,
    /// An in-memory store. It would have DoltLite's own format, and each connection would have a store of its own.
    #[error("the metadata store must be a file, not '{0}'")]
    InMemory(String),
    /// The file exists and is not a standard SQLite file.
    #[error("'{path}' is not a standard SQLite file; move it, or choose another file with --metadata-url")]
    NotSqlite {
        /// Path of the file.
        path: String,
    },
    /// The file could not be created or read.
    #[error("cannot use '{path}' as the metadata file")]
    File {
        /// Path of the file.
        path: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The server cannot lock rows as transactions need it.
    #[error(
        "'{server}' cannot serve as a metadata store: it does not lock rows FOR NO KEY UPDATE and FOR SHARE ({reason}); use PostgreSQL 13 or later"
    )]
    Locks {
        /// What the server says it is.
        server: String,
        /// The message of the server.
        reason: String,
    },
    /// No connection could be opened in time.
    #[error("cannot connect to the metadata store: {reason}")]
    Connect {
        /// The message of the engine.
        reason: String,
    },
}

/// An error that prevents checking or applying migrations.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// The store has a migration that this program does not know.
    #[error(
        "a newer release has changed this metadata store (migration {version}), and this program cannot read it; run that \
         release or a newer one, or restore a backup from before the upgrade"
    )]
    Unknown {
        /// Version of the migration.
        version: String,
    },
    /// A migration differs from the one that was applied.
    #[error(
        "migration {version} was changed after it was applied to this metadata store; run the release that applied it, \
         and put further changes in a new migration"
    )]
    Altered {
        /// Version of the migration.
        version: String,
    },
    /// Migrations are pending, and applying them was not allowed.
    #[error("the metadata store lacks migrations ({}); run `branchyard migrate`, or start without --no-migrate", .versions.join(", "))]
    Pending {
        /// Versions of the migrations, in order.
        versions: Vec<String>,
    },
    /// Another process is migrating the store. The value is the time waited.
    #[error("another process has been migrating the metadata store for {} seconds; wait for it or stop it, then try again", .0.as_secs())]
    Locked(Duration),
    /// A migration failed and was rolled back.
    #[error("migration {version} failed and was rolled back")]
    Failed {
        /// Version of the migration.
        version: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store failed.
    #[error("the metadata store failed while migrations were {doing}")]
    Store {
        /// The action at the time, for the message.
        doing: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A stored value that the domain does not accept.
#[derive(Debug, thiserror::Error)]
#[error("column {column} has an invalid value: {why}")]
pub(crate) struct Unreadable {
    pub(crate) column: &'static str,
    pub(crate) why: String,
}

/// An error of a repository method, before it is converted to an error of the port.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error(transparent)]
    Sql(#[from] DieselError),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// The result of a step of a repository method.
pub(crate) type StoreResult<T> = std::result::Result<T, StoreError>;

impl StoreError {
    /// Converts to the error of the port. A unique violation becomes a fault: where it has a meaning, the caller has
    /// checked [`StoreError::is_taken`] first.
    pub(crate) fn into_port(self, context: &'static str) -> MetadataError {
        match self {
            Self::Sql(error) if is_passing(&error) => MetadataError::Unavailable(Box::new(error)),
            error => MetadataError::Fault { context, source: Box::new(error) },
        }
    }

    /// Returns `true` if a unique constraint was violated. SQLite does not identify the constraint, so the operation
    /// defines the meaning.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, Self::Sql(DieselError::DatabaseError(DatabaseErrorKind::UniqueViolation, _)))
    }
}

/// Returns `true` if the text of an error of the database has one of these parts. diesel does not pass on error codes.
pub(crate) fn says(error: &DieselError, parts: &[&str]) -> bool {
    matches!(error, DieselError::DatabaseError(_, info) if parts.iter().any(|part| info.message().contains(part)))
}

/// Returns `true` if a retry may succeed. diesel does not pass on error codes, so the text of the error decides where
/// the kind does not. An error in another language becomes a fault instead, which only costs the caller a retry.
pub(crate) fn is_passing(error: &DieselError) -> bool {
    const SIGNS: &[&str] = &[
        "database is locked",
        "database table is locked",
        "database or disk is full",
        "disk I/O error",
        "unable to open database file",
        "No space left on device",
        "lock timeout",
        "statement timeout",
        "deadlock detected",
    ];
    match error {
        DieselError::DatabaseError(DatabaseErrorKind::SerializationFailure, _)
        | DieselError::BrokenTransactionManager => true,
        error => is_server_gone(error) || says(error, SIGNS),
    }
}

/// Returns `true` if the connection has ended, or leads to a server that does not write, so that another connection may serve. Whether
/// the connection has ended is known in every language.
pub(crate) fn is_server_gone(error: &DieselError) -> bool {
    const SIGNS: &[&str] = &[
        "server closed the connection",
        "terminating connection",
        "the database system is",
        "too many clients",
        "too many connections",
        "remaining connection slots",
        "during recovery",
        // Of libpq, which is always in English.
        "could not receive data from server",
        "could not send data to server",
        "no connection to the server",
    ];
    match error {
        DieselError::DatabaseError(DatabaseErrorKind::ClosedConnection, _) => true,
        DieselError::RollbackErrorOnCommit { commit_error, .. } => is_server_gone(commit_error),
        error => is_read_only(error) || says(error, SIGNS),
    }
}

/// Returns `true` if a statement was to write, and the transaction only reads.
pub(crate) fn is_read_only(error: &DieselError) -> bool {
    matches!(error, DieselError::DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, _))
}

/// Returns `true` if an error of `COMMIT` means that the transaction was rolled back and that a retry would fail too. If the answer
/// of the server is lost, the transaction may have been committed.
pub(crate) fn is_undone(error: &DieselError) -> bool {
    match error {
        DieselError::DatabaseError(DatabaseErrorKind::UnableToSendCommand, _)
        // diesel rolls back after an error, and has no answer to that either if the connection has ended.
        | DieselError::RollbackErrorOnCommit { .. } => false,
        error => !is_passing(error),
    }
}
