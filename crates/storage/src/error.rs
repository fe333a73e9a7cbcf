//! What can go wrong, and how diesel's errors become the port's.

use std::time::Duration;

use branchyard_domain::ports::MetadataError;
use diesel::result::{DatabaseErrorKind, Error as DieselError};

/// The store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL names no engine known here.
    #[error("'{scheme}' is no metadata store: use sqlite://PATH, a plain path or postgres://…")]
    Scheme {
        /// What stood before `://`.
        scheme: String,
    },
    /// A SQLite URL without a path.
    #[error("the metadata URL names no file")]
    NoPath,
    /// A store in memory would be in DoltLite's own format, and different in each connection.
    #[error("the metadata store has to be a file, not '{0}'")]
    InMemory(String),
    /// The file is something else.
    #[error("'{path}' is not a standard SQLite file; move it away, or name another with --metadata-url")]
    NotSqlite {
        /// The file.
        path: String,
    },
    /// The file could not be made or read.
    #[error("cannot use '{path}' as the metadata file")]
    File {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// No connection within the time allowed.
    #[error("cannot connect to the metadata store: {reason}")]
    Connect {
        /// What the engine said.
        reason: String,
    },
}

/// Migrations could not be checked or run.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// A newer or foreign program has been here.
    #[error(
        "the metadata store has migration {version}, which this program does not know; run the program that applied it, or a newer one"
    )]
    Unknown {
        /// The migration.
        version: String,
    },
    /// What was applied is not what this program would apply.
    #[error(
        "migration {version} was changed after it was applied to this metadata store; run the release that applied it, \
         and put further changes in a new migration"
    )]
    Altered {
        /// The migration.
        version: String,
    },
    /// Not all were applied, and applying was not allowed.
    #[error("the metadata store lacks migrations ({}); run `branchyard migrate`, or start without --no-migrate", .versions.join(", "))]
    Pending {
        /// The migrations, in order.
        versions: Vec<String>,
    },
    /// Another process is migrating.
    #[error("another process has been migrating the metadata store for {} seconds; wait for it, or stop it, and try again", .0.as_secs())]
    Locked(Duration),
    /// A migration failed; nothing of it stays.
    #[error("migration {version} failed and was undone")]
    Failed {
        /// The migration.
        version: String,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store itself.
    #[error("the metadata store failed while migrations were {doing}")]
    Store {
        /// What was being done.
        doing: &'static str,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A stored value that the domain does not accept.
#[derive(Debug, thiserror::Error)]
#[error("column {column} holds what it should not: {why}")]
pub(crate) struct Unreadable {
    pub(crate) column: &'static str,
    pub(crate) why: String,
}

/// What a repository method stumbles over, before it is known which port error that is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error(transparent)]
    Sql(#[from] DieselError),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

impl StoreError {
    /// The port's error. A unique violation is a fault here: where it has a meaning, [`Failed::is_taken`] was asked first.
    pub(crate) fn into_port(self, context: &'static str) -> MetadataError {
        match self {
            Self::Sql(error) if is_passing(&error) => MetadataError::Unavailable(Box::new(error)),
            error => MetadataError::Fault { context, source: Box::new(error) },
        }
    }

    /// Whether a unique constraint refused. Which one cannot be told on SQLite, so the operation tried gives the meaning.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, Self::Sql(DieselError::DatabaseError(DatabaseErrorKind::UniqueViolation, _)))
    }
}

/// Whether the same may work later. diesel passes on no error codes, so the text decides what the kind leaves open; a text
/// in another language is a fault instead, which costs the caller a retry and nothing else.
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
        "server closed the connection",
        "terminating connection",
        "the database system is",
        "too many clients",
        "read-only transaction after recovery",
        "could not receive data from server",
        "no connection to the server",
    ];
    match error {
        DieselError::DatabaseError(
            DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::SerializationFailure,
            _,
        )
        | DieselError::BrokenTransactionManager => true,
        DieselError::DatabaseError(_, info) => SIGNS.iter().any(|sign| info.message().contains(sign)),
        _ => false,
    }
}
