//! SQL reads at a ref.

use super::{Inner, revisions, show};
use crate::access::{DatabaseAccess, Level};
use crate::errors::{Fault, ReadError};
use crate::ports::{EngineError, ReadQuery, ReadReport, RowSink, SqlFailure};
use crate::values::CommitHash;

/// How a read ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadEnd {
    /// All rows, or as many as the sink wanted.
    Done(ReadReport),
    /// The statement is to blame.
    Failed(SqlFailure),
}

/// SQL reads.
pub struct Sql<'a>(&'a Inner);

impl<'a> Sql<'a> {
    /// What is read where no statement is given.
    pub const DEFAULT_STATEMENT: &'static str = "SHOW TABLES;";

    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// The commit a read of this ref sees; `None` is the default branch.
    ///
    /// # Errors
    /// [`ReadError::Ref`].
    pub fn resolve<L: Level>(&self, access: &DatabaseAccess<L>, name: Option<&str>) -> Result<CommitHash, ReadError> {
        Ok(revisions::resolve(self.0, access.database(), name)?)
    }

    /// The same when it need not be looked up; never blocks. `None` says nothing about the ref.
    pub fn known<L: Level>(&self, access: &DatabaseAccess<L>, name: Option<&str>) -> Option<CommitHash> {
        revisions::known(self.0, access.database(), name)
    }

    /// Runs one statement at a commit that [`Sql::resolve`] gave, until `canceled` says that nobody wants its rows any more.
    ///
    /// # Errors
    /// [`ReadError::Fault`]; what the statement is to blame for is [`ReadEnd::Failed`].
    pub fn read<L: Level>(
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
        match ended {
            Ok(report) => Ok(ReadEnd::Done(report)),
            Err(EngineError::Sql { failure, .. }) => Ok(ReadEnd::Failed(failure)),
            Err(other) => Err(Fault::from(other).into()),
        }
    }
}
