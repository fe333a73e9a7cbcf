//! Runs work on connections: for reads fixed to a commit, and for writes on the connection of a database.

use std::time::Duration;

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, DatabaseId};

use super::{DoltliteEngine, missing};
use crate::connection::{Connection, ConnectionUse};
use crate::memory::Allocated;
use crate::queue::WriteTurn;
use crate::sql::errors;

/// Distinguishes the read connections of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReaderKey {
    /// The commit that the connection is fixed to.
    at: Option<CommitHash>,
    /// Whether the connection serves user statements only.
    wrapped: bool,
}

impl DoltliteEngine {
    /// Runs `work` on a connection fixed to a commit, inside one read transaction.
    pub(crate) fn reading<T>(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        work: impl FnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.reading_at(database, Some(at), false, work)
    }

    /// Works like [`Self::reading`] for user statements, which see only the commits that the database shows.
    pub(super) fn reading_guarded<T>(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        work: impl FnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.reading_at(database, Some(at), true, |connection| {
            work(connection).map_err(|error| errors::in_commit(at, error))
        })
    }

    /// Runs `work`, which may query the history of any commit, inside one read transaction.
    pub(crate) fn reading_history<T>(
        &self,
        database: DatabaseId,
        work: impl FnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.reading_at(database, None, false, work)
    }

    fn reading_at<T>(
        &self,
        database: DatabaseId,
        at: Option<&CommitHash>,
        guarded: bool,
        work: impl FnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let (generation, before) = (self.readers.generation(), Allocated::now());
        let mut key = ReaderKey { at: at.cloned(), wrapped: guarded };
        let mut pooled = self.readers.take(database, &key);
        if guarded && pooled.is_none() {
            key.wrapped = false;
            pooled = self.readers.take(database, &key);
        }
        let connection = match pooled {
            Some(connection) => connection,
            None => self.open_connection(database, at.map_or(ConnectionUse::History, ConnectionUse::Read))?,
        };
        if let Some(at) = at.filter(|_| guarded && !connection.is_limited()) {
            connection.limit_to(self.scope(database, at));
        }
        connection.begin_read().map_err(|error| match at {
            Some(at) => errors::fault_at("begin a read", at, error),
            None => errors::fault("begin a read", error),
        })?;
        let result = work(&connection);
        key.wrapped = connection.is_wrapped();
        if !key.wrapped {
            connection.limit_to(None);
        }
        let rolled_back = connection.roll_back();
        let is_sound = connection.is_sound_since(before);
        match rolled_back {
            Ok(()) if !is_sound => {}
            Ok(()) => self.readers.put(database, key, connection, generation),
            Err(error) => tracing::warn!(database_id = %database, %error, "closing a connection"),
        }
        result
    }

    /// Works like [`Self::reading`] with a time limit, for internal statements whose duration depends on the amount of
    /// data.
    pub(crate) fn reading_within<T>(
        &self,
        timeout: Duration,
        database: DatabaseId,
        at: &CommitHash,
        context: &str,
        work: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, EngineError> {
        self.reading(database, at, |connection| {
            self.timing(timeout, connection, work, |error| errors::fault_at(context, at, error))
        })
    }

    /// Runs `work` on a connection with a time limit. `fault` returns the error of a statement that failed for another reason.
    pub(crate) fn timing<T>(
        &self,
        timeout: Duration,
        connection: &Connection,
        work: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
        fault: impl Fn(rusqlite::Error) -> EngineError,
    ) -> Result<T, EngineError> {
        let timed = connection.limit_time(&self.watchdog, timeout).map_err(&fault)?;
        match work(connection) {
            Err(error) if errors::cut_short(&error) => Err(timed.ended().unwrap_or_else(|| fault(error))),
            other => other.map_err(&fault),
        }
    }

    /// Runs `work` on the write connection of a database. A transaction that `work` leaves open is rolled back.
    pub(crate) fn writing<T>(
        &self,
        turn: &WriteTurn,
        work: impl FnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let database = turn.database();
        let (generation, before) = (self.writers.generation(), Allocated::now());
        let connection = match self.writers.take(database, &()) {
            Some(connection) => connection,
            None => self.open_connection(database, ConnectionUse::Write)?,
        };
        let result = work(&connection);
        if connection.is_wrapped() {
            return result;
        }
        let rolled_back = connection.roll_back();
        let is_sound = connection.is_sound_since(before);
        match rolled_back {
            Ok(()) if !is_sound => {}
            Ok(()) => self.writers.put(database, (), connection, generation),
            Err(error) => tracing::warn!(database_id = %database, %error, "closing a connection"),
        }
        result
    }

    /// Works like [`Self::writing`] for user statements that start from `base`, which see only the commits that the
    /// database shows.
    pub(crate) fn writing_at<T>(
        &self,
        turn: &WriteTurn,
        base: &CommitHash,
        work: impl FnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.writing(turn, |connection| {
            connection.limit_to(self.scope(turn.database(), base));
            let result = work(connection);
            connection.limit_to(None);
            result
        })
    }

    /// Opens a connection to another file of the engine, under a temporary name.
    pub(crate) fn open_file(&self, path: &std::path::Path, purpose: ConnectionUse<'_>) -> rusqlite::Result<Connection> {
        Connection::open(path, purpose, &self.guard)
    }

    fn open_connection(&self, database: DatabaseId, purpose: ConnectionUse<'_>) -> Result<Connection, EngineError> {
        let path = self.files.path(database);
        self.check_format(database)?;
        self.open_file(&path, purpose).map_err(|error| {
            if !self.files.exists(&path) {
                return missing(database);
            }
            match purpose {
                ConnectionUse::Read(commit) => errors::fault_at("open a database", commit, error),
                ConnectionUse::History | ConnectionUse::Write => errors::fault("open a database", error),
            }
        })
    }
}
