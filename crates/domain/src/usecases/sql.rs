//! SQL reads at a ref.

use std::sync::Arc;

use super::{Inner, revisions, show};
use crate::access::{DatabaseAccess, Level, RunsSql};
use crate::errors::{PortError, ReadError};
use crate::ports::{EngineError, ReadQuery, ReadReport, RowSink, SqlFailure, StartedRead};
use crate::values::CommitHash;

/// The outcome of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadEnd {
    /// The read ended normally, after all rows or when the sink stopped it.
    Done(ReadReport),
    /// The statement failed.
    Failed(SqlFailure),
}

/// Use cases of SQL reads.
pub struct Sql<'a>(&'a Inner);

impl<'a> Sql<'a> {
    /// The statement that is run if the caller provides none.
    pub const DEFAULT_STATEMENT: &'static str = "SHOW TABLES;";

    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns the commit that a read of this ref sees. `None` means the default branch.
    ///
    /// # Errors
    /// [`ReadError::Ref`] if there is no such ref.
    pub fn resolve<L: Level>(&self, access: &DatabaseAccess<L>, name: Option<&str>) -> Result<CommitHash, ReadError> {
        Ok(revisions::resolve(self.0, access.database(), name)?)
    }

    /// Returns the commit of a ref if it is in the cache. Never blocks. `None` does not mean that the ref does not exist.
    pub fn known<L: Level>(&self, access: &DatabaseAccess<L>, name: Option<&str>) -> Option<CommitHash> {
        revisions::known(self.0, access.database(), name)
    }

    /// Runs one statement at a commit that [`Sql::resolve`] returned, and sends its rows to `sink`.
    ///
    /// # Errors
    /// [`ReadError::Port`]. Failures of the statement are returned as [`ReadEnd::Failed`].
    pub fn read<L: RunsSql>(
        &self,
        access: &DatabaseAccess<L>,
        at: &CommitHash,
        query: &ReadQuery<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<ReadEnd, ReadError> {
        let database = access.database();
        let engine = self.0.ports.engine.as_ref();
        let ended = match show::parse(query.sql) {
            Some(asked) => show::answer(engine, database, at, asked, sink),
            None => engine.read(database.id, at, query, sink),
        };
        ended_as(ended)
    }

    /// Starts a read as [`Sql::read`] runs it, if it can compute outside this process at once. Never blocks. `None` means that the
    /// read needs a thread.
    pub fn start<L: RunsSql>(
        &self,
        access: &DatabaseAccess<L>,
        at: &CommitHash,
        query: &ReadQuery<'_>,
    ) -> Option<Box<dyn StartedRead>> {
        if show::parse(query.sql).is_some() {
            return None;
        }
        Arc::clone(&self.0.ports.engine).start_read(access.database().id, at, query)
    }

    /// Waits for a read that [`Sql::start`] started with the same arguments, or runs the read if that returned `None`.
    ///
    /// # Errors
    /// As [`Sql::read`].
    pub fn finish<L: RunsSql>(
        &self,
        started: Option<Box<dyn StartedRead>>,
        access: &DatabaseAccess<L>,
        at: &CommitHash,
        query: &ReadQuery<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<ReadEnd, ReadError> {
        match started {
            Some(started) => ended_as(started.finish(sink)),
            None => self.read(access, at, query, sink),
        }
    }
}

fn ended_as(ended: Result<ReadReport, EngineError>) -> Result<ReadEnd, ReadError> {
    match ended {
        Ok(report) => Ok(ReadEnd::Done(report)),
        Err(EngineError::Sql { failure, .. }) => Ok(ReadEnd::Failed(failure)),
        Err(other) => Err(PortError::from(other).into()),
    }
}
