//! Sessions on a deployment's files: statements of its clients, one after the other, on a guarded connection.

mod arguments;
mod codes;
mod databases;
mod definition;
mod run;
mod sink;

use std::sync::Arc;

use branchyard_domain::ports::{
    Arguments, EngineError, RowSink, Session, SessionError, SessionRequest, SqlPower, StatementBounds,
    StatementDescription, StatementReport,
};

use crate::connection::Connection;
use crate::engine::{DoltliteEngine, missing};
use crate::memory::Allocated;
use crate::pool::Pool;
use crate::sql::errors;
use crate::watchdog::Watchdog;

/// One session. Its connection goes back to the pool when nobody could tell it from a new one.
struct EngineSession {
    /// There until the session is dropped.
    connection: Option<Connection>,
    request: SessionRequest,
    pool: Arc<Pool<SessionRequest>>,
    generation: u64,
    watchdog: Arc<Watchdog>,
    /// The branch it started on.
    home: String,
    /// A setting or a temporary object of its own was made.
    changed: bool,
    /// It may be on another branch.
    left_home: bool,
    /// The open transaction was begun as one that reads.
    reads_only: bool,
    /// The open transaction changed something.
    wrote: bool,
}

pub(crate) fn open(engine: &DoltliteEngine, request: &SessionRequest) -> Result<Box<dyn Session>, SessionError> {
    let generation = engine.sessions.generation();
    let idle = engine.sessions.take(request.database, request);
    let (connection, home) = match idle.and_then(still_there) {
        Some(found) => found,
        None => {
            let path = engine.files.path(request.database);
            let opened = Connection::open_session(&path, request, engine.options.session_cache_kib, &engine.modules());
            let connection = opened.map_err(|error| {
                if !path.exists() {
                    missing(request.database).into()
                } else if errors::is_missing_commit(&error) {
                    no_such_branch(request)
                } else {
                    SessionError::Engine(errors::fault("open a session", error))
                }
            })?;
            // A tag or an expression about commits opens, too; it is no branch.
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

/// The connection with the branch it is on, unless that was deleted.
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

    /// Runs `work`; nobody else gets a connection whose work was refused memory (see [`Connection::is_sound_since`]).
    fn weighed<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = Allocated::now();
        let result = work(self);
        self.changed |= before.was_refused();
        result
    }

    /// Notes what a statement left behind.
    fn note(&mut self, wrote: bool) {
        if self.is_autocommit() {
            self.wrote = false;
            self.end_reading();
        } else {
            self.wrote |= wrote;
        }
    }

    /// A transaction that was begun as one that reads is over.
    fn end_reading(&mut self) {
        if std::mem::take(&mut self.reads_only) && self.request.power != SqlPower::Read {
            let ended = self.connection().is_ok_and(|c| c.raw().execute_batch("PRAGMA query_only = off").is_ok());
            // Otherwise the connection goes on refusing writes, and nobody else gets it.
            self.changed |= !ended;
        }
    }
}

impl Session for EngineSession {
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
