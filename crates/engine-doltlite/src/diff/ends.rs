//! The two states of a database that are compared.

use std::time::Duration;

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, DatabaseId};

use crate::connection::Connection;
use crate::engine::DoltliteEngine;
use crate::sql::errors;

/// A state of a database.
#[derive(Clone, Copy)]
pub(crate) enum DiffEnd<'a> {
    /// A commit.
    Commit(&'a CommitHash),
    /// What a write connection sees in its open transaction, which began at the other end of the comparison.
    Open(&'a Connection),
}

impl DiffEnd<'_> {
    /// Returns the name by which the engine's own comparison finds this state. For an open transaction, only its own connection does.
    pub(super) fn reference(&self) -> &str {
        match self {
            Self::Commit(commit) => commit.as_str(),
            Self::Open(_) => "WORKING",
        }
    }

    /// Returns `true` if only one connection can read this state.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// Returns the error of an internal statement at this state.
    pub(super) fn fault(&self, context: &str, error: rusqlite::Error) -> EngineError {
        match self {
            Self::Commit(commit) => errors::fault_at(context, commit, error),
            Self::Open(_) => errors::fault(context, error),
        }
    }
}

/// A comparison of two states of a database.
#[derive(Clone, Copy)]
pub(crate) struct Comparison<'a> {
    pub(crate) engine: &'a DoltliteEngine,
    pub(crate) database: DatabaseId,
    pub(crate) from: DiffEnd<'a>,
    pub(crate) to: DiffEnd<'a>,
    /// Time limit of each step.
    pub(crate) timeout: Duration,
    /// Time limit of counting changed rows. What takes longer is not counted.
    pub(crate) count_timeout: Duration,
}

impl<'a> Comparison<'a> {
    /// Returns the comparison of two commits, within the usual limits.
    pub(crate) fn of_commits(
        engine: &'a DoltliteEngine,
        database: DatabaseId,
        from: &'a CommitHash,
        to: &'a CommitHash,
    ) -> Self {
        let (timeout, count_timeout) = (engine.options.diff_timeout, engine.options.count_timeout);
        Self { engine, database, from: DiffEnd::Commit(from), to: DiffEnd::Commit(to), timeout, count_timeout }
    }

    /// Runs `work` on a connection that sees a state.
    pub(super) fn reading<T>(
        &self,
        end: DiffEnd<'_>,
        work: impl FnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        match end {
            DiffEnd::Commit(commit) => self.engine.reading(self.database, commit, work),
            DiffEnd::Open(connection) => work(connection),
        }
    }

    /// Works like [`Self::reading`] with a time limit.
    pub(super) fn reading_within<T>(
        &self,
        timeout: Duration,
        end: DiffEnd<'_>,
        context: &str,
        work: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, EngineError> {
        match end {
            DiffEnd::Commit(commit) => self.engine.reading_within(timeout, self.database, commit, context, work),
            DiffEnd::Open(connection) => {
                self.engine.timing(timeout, connection, work, |error| end.fault(context, error))
            }
        }
    }
}
