//! Sessions on the files of deployments: statements of a client, one after the other, on a guarded connection.

mod arguments;
mod codes;
mod databases;
mod definition;
mod run;
mod sink;

use std::sync::Arc;

use branchyard_domain::ports::{
    Arguments, EngineError, RowSink, SessionError, SessionRequest, SqlPower, SqlSession, StatementBounds,
    StatementDescription, StatementReport,
};

use crate::connection::Connection;
use crate::engine::{DoltliteEngine, missing};
use crate::idle_connections::IdleConnections;
use crate::memory::Allocated;
use crate::sql::errors;
use crate::watchdog::Watchdog;

/// A session. Its connection returns to the pool if the session left no trace on it.
struct EngineSession {
    /// `Some` until the session is dropped.
    connection: Option<Connection>,
    request: SessionRequest,
    pool: Arc<IdleConnections<SessionRequest>>,
    generation: u64,
    watchdog: Arc<Watchdog>,
    /// The branch on which the session started.
    home: String,
    /// Whether the connection must not be reused: the session changed a setting or made a temporary object, or its work
    /// was refused memory.
    changed: bool,
    /// Whether the session may be on another branch.
    left_home: bool,
    /// Whether the open transaction was begun as read-only.
    reads_only: bool,
    /// Whether the open transaction changed something.
    wrote: bool,
}

pub(crate) fn open(engine: &DoltliteEngine, request: &SessionRequest) -> Result<Box<dyn SqlSession>, SessionError> {
    let generation = engine.sessions.generation();
    let idle = engine.sessions.take(request.database, request);
    let (connection, home) = match idle.and_then(still_there) {
        Some(found) => found,
        None => {
            let path = engine.files.path(request.database);
            let opened = Connection::open_session(&path, request, engine.options.session_cache_kib, engine.guard());
            let connection = opened.map_err(|error| {
                if !engine.files.exists(&path) {
                    missing(request.database).into()
                } else if errors::is_missing_commit(&error) {
                    no_such_branch(request)
                } else {
                    SessionError::Engine(errors::fault("open a session", error))
                }
            })?;
            // A tag or a commit expression can be opened too, but is no branch.
            still_there(connection)
                .filter(|(_, home)| request.branch.as_ref().is_none_or(|branch| branch == home))
                .ok_or_else(|| no_such_branch(request))?
        }
    };
    Ok(Box::new(EngineSession {
        connection: Some(connection),
        request: request.clone(),
        pool: Arc::clone(&engine.sessions),
        generation,
        watchdog: Arc::clone(&engine.watchdog),
        home,
        changed: false,
        left_home: false,
        reads_only: false,
        wrote: false,
    }))
}

fn no_such_branch(request: &SessionRequest) -> SessionError {
    SessionError::NoSuchBranch(request.branch.clone().unwrap_or_default())
}

/// Returns the connection and its branch, or `None` if the branch was deleted.
fn still_there(connection: Connection) -> Option<(Connection, String)> {
    let branch = active_branch(&connection)?;
    Some((connection, branch))
}

fn active_branch(connection: &Connection) -> Option<String> {
    let sql = "SELECT name FROM dolt_branches WHERE name = active_branch()";
    connection.raw().prepare_cached(sql).ok()?.query_row([], |row| row.get(0)).ok()
}

impl EngineSession {
    fn connection(&self) -> Result<&Connection, SessionError> {
        self.connection
            .as_ref()
            .ok_or_else(|| SessionError::Engine(EngineError::Unavailable("the session has lost its connection".into())))
    }

    /// Runs `work`. A connection whose work was refused memory is not reused (see [`Connection::is_sound_since`]).
    fn weighed<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = Allocated::now();
        let result = work(self);
        self.changed |= before.was_refused();
        result
    }

    /// Records the effect of a statement on the transaction.
    fn note(&mut self, wrote: bool) {
        if self.is_autocommit() {
            self.wrote = false;
            self.end_reading();
        } else {
            self.wrote |= wrote;
        }
    }

    /// Ends the read-only mode of a transaction that is over.
    fn end_reading(&mut self) {
        if std::mem::take(&mut self.reads_only) && self.request.power != SqlPower::Read {
            let ended = self.connection().is_ok_and(|c| c.raw().execute_batch("PRAGMA query_only = off").is_ok());
            // If this fails, the connection still refuses writes, so it must not be reused.
            self.changed |= !ended;
        }
    }
}

impl SqlSession for EngineSession {
    fn run(
        &mut self,
        sql: &str,
        arguments: &Arguments,
        bounds: &StatementBounds,
        sink: &mut dyn RowSink,
    ) -> Result<StatementReport, SessionError> {
        self.weighed(|session| run::run(session, sql, arguments, bounds, sink))
    }

    fn step(&mut self, sql: &str, bounds: &StatementBounds) -> Result<(usize, StatementReport), SessionError> {
        self.weighed(|session| run::step(session, sql, bounds))
    }

    fn describe(&mut self, sql: &str) -> Result<StatementDescription, SessionError> {
        self.weighed(|session| run::describe(session, sql))
    }

    fn is_autocommit(&self) -> bool {
        self.connection.as_ref().is_none_or(|connection| connection.raw().is_autocommit())
    }

    fn is_clean(&self) -> bool {
        let Some(connection) = &self.connection else { return false };
        !self.changed
            && connection.raw().is_autocommit()
            && (!self.left_home || active_branch(connection).as_ref() == Some(&self.home))
    }

    fn roll_back(&mut self) -> Result<(), SessionError> {
        let rolled_back = self.connection()?.roll_back();
        rolled_back.map_err(|error| SessionError::Engine(errors::fault("roll back", error)))?;
        self.note(false);
        Ok(())
    }
}

impl Drop for EngineSession {
    fn drop(&mut self) {
        let reusable = self.roll_back().is_ok() && self.is_clean();
        if let Some(connection) = self.connection.take().filter(|_| reusable) {
            self.pool.put(self.request.database, self.request.clone(), connection, self.generation);
        }
    }
}
