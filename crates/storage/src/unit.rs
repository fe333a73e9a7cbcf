//! The unit of work: one transaction on one connection.
//!
//! **Writers exclude each other.** On SQLite by `BEGIN IMMEDIATE`. On Postgres by a transaction-level advisory lock, taken first,
//! under READ COMMITTED: each statement then sees all units before it and none beside it. `SERIALIZABLE` would promise the
//! same, but any of its statements may fail to be serialized and the whole unit has to be run again, which a unit handed out
//! as a value cannot do by itself; row locks would leave it to every method to lock the right rows. The lock is released when
//! the transaction is visible to all, so reading what the one before wrote is safe. It costs one round trip, and it caps all
//! nodes together at one writer at a time: about 1 / (round trips × latency) units a second (measured
//! on two busy cores, debug build, local server: 1,000 small units a second, with one thread as with eight). When that is too little, the key
//! of the lock can become the database's, and the few units that span databases take two in order.

use std::sync::Arc;

use branchyard_domain::ports::{MetadataError, Unit};
use diesel::connection::{SimpleConnection, TransactionManager};
use diesel::prelude::*;

use crate::connection::{AnyConnection, Pool, PooledConnection, Purpose, begin};
use crate::error::{Failed, is_passing};
use crate::log::{Log, Seen};

type Tm = <AnyConnection as Connection>::TransactionManager;

/// The key of the writers' lock in Postgres: "branchya".
const WRITE_LOCK: &str = "SELECT pg_advisory_xact_lock(7093839489804040545)";

const SAVE: &str = "save a unit";

pub(crate) struct SqlUnit {
    conn: PooledConnection,
    open: bool,
    failed: bool,
    log: Option<Arc<Log>>,
    /// The last field: dropped when the connection is back in its pool.
    _seen: Seen,
}

/// Something in the unit failed before.
#[derive(Debug, thiserror::Error)]
#[error("an earlier step of this unit failed")]
struct Spoiled;

impl SqlUnit {
    pub(crate) fn begin(pool: &Pool, purpose: Purpose, log: Option<&Arc<Log>>) -> Result<Self, MetadataError> {
        let mut tries = pool.size();
        loop {
            let mut conn = pool.get().map_err(|error| MetadataError::Unavailable(Box::new(error)))?;
            let begun = match purpose {
                Purpose::Read => begin(&mut conn.any, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "BEGIN"),
                Purpose::Write => {
                    begin(&mut conn.any, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", "BEGIN IMMEDIATE")
                }
            };
            match begun {
                Ok(()) => {
                    let seen = Seen(log.filter(|_| purpose == Purpose::Read).cloned());
                    let mut unit = Self { conn, open: true, failed: false, log: log.cloned(), _seen: seen };
                    if purpose == Purpose::Write {
                        unit.lock()?;
                    }
                    return Ok(unit);
                }
                // The server was away since the connection was last used: others in the pool may be in the same state.
                Err(error) if matches!(conn.any, AnyConnection::Pg(_)) && tries > 0 => {
                    tracing::debug!(%error, "a stale connection is thrown away");
                    conn.broken = true;
                    tries -= 1;
                }
                Err(error) => {
                    conn.broken = true;
                    return Err(Failed::Sql(error).into_port("begin a unit"));
                }
            }
        }
    }

    fn lock(&mut self) -> Result<(), MetadataError> {
        match &mut self.conn.any {
            AnyConnection::Sqlite(_) => Ok(()),
            AnyConnection::Pg(conn) => {
                conn.batch_execute(WRITE_LOCK).map_err(|error| MetadataError::Unavailable(Box::new(error)))
            }
        }
    }

    /// The connection, for what is no step of a repository.
    pub(crate) fn connection(&mut self) -> &mut AnyConnection {
        &mut self.conn.any
    }

    /// Runs one step. A step that fails spoils the unit: Postgres would refuse what follows and "commit" nothing.
    pub(crate) fn run<T>(
        &mut self,
        context: &'static str,
        step: impl FnOnce(&mut AnyConnection) -> Result<T, Failed>,
    ) -> Result<T, MetadataError> {
        step(&mut self.conn.any).map_err(|error| self.spoil(error, context))
    }

    /// Runs a step that a unique constraint may refuse, as [`MetadataError::Taken`]. A savepoint keeps the unit usable then.
    pub(crate) fn run_unless_taken<T>(
        &mut self,
        context: &'static str,
        step: impl FnOnce(&mut AnyConnection) -> Result<T, Failed>,
    ) -> Result<T, MetadataError> {
        match self.conn.any.transaction(step) {
            Err(error) if error.is_taken() => Err(MetadataError::Taken),
            other => other.map_err(|error| self.spoil(error, context)),
        }
    }

    fn spoil(&mut self, error: Failed, context: &'static str) -> MetadataError {
        self.failed = true;
        error.into_port(context)
    }

    fn commit(&mut self) -> Result<(), MetadataError> {
        if self.failed {
            return Err(MetadataError::Fault { context: SAVE, source: Box::new(Spoiled) });
        }
        let result = Tm::commit_transaction(&mut self.conn.any);
        // Whether a transaction is still open after an error depends on the error; the connection is not asked.
        self.open = false;
        self.conn.broken |= result.is_err();
        result.map_err(|error| {
            if is_passing(&error) {
                MetadataError::Unavailable(Box::new(error))
            } else {
                MetadataError::Fault { context: SAVE, source: Box::new(error) }
            }
        })
    }

    fn roll_back(&mut self) {
        self.open = false;
        if let Err(error) = Tm::rollback_transaction(&mut self.conn.any) {
            // Closing the connection rolls back for certain.
            tracing::error!(%error, "rollback failed, the connection is thrown away");
            self.conn.broken = true;
        }
    }
}

impl Unit for SqlUnit {
    fn save(mut self: Box<Self>) -> Result<(), MetadataError> {
        let Some(log) = self.log.clone() else { return self.commit() };
        log.begin()?;
        let result = self.commit();
        let committed = log.end();
        // The next writer need not wait for the disk.
        drop(self);
        result.and_then(|()| log.wait_for(committed))
    }

    fn save_unsynced(mut self: Box<Self>) -> Result<(), MetadataError> {
        if let AnyConnection::Pg(conn) = &mut self.conn.any {
            let relaxed = conn.batch_execute("SET LOCAL synchronous_commit = off");
            relaxed.map_err(|error| Failed::Sql(error).into_port(SAVE))?;
        }
        self.commit()
    }
}

impl Drop for SqlUnit {
    fn drop(&mut self) {
        // In a panic the pool throws the connection away, transaction and all.
        if self.open && !std::thread::panicking() {
            self.roll_back();
        }
    }
}
