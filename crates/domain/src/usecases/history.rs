//! History: commits, differences between commits, and table definitions at a commit.

use super::{Inner, revisions};
use crate::access::{DatabaseAccess, Level};
use crate::entities::{LogEntry, LogPosition, TableChange, TableSchema};
use crate::errors::ReadError;
use crate::ports::{ChangedRows, EngineError, RowPage};
use crate::values::CommitHash;

/// Use cases of history.
pub struct History<'a>(&'a Inner);

impl<'a> History<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns the commit that a ref points at. `None` means the default branch.
    ///
    /// # Errors
    /// [`ReadError::Ref`] if there is no such ref.
    pub fn resolve<L: Level>(&self, access: &DatabaseAccess<L>, name: Option<&str>) -> Result<CommitHash, ReadError> {
        Ok(revisions::resolve(self.0, access.database(), name)?)
    }

    /// Returns the best common ancestor of two commits.
    ///
    /// # Errors
    /// [`ReadError::Port`].
    pub fn merge_base<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        a: &CommitHash,
        b: &CommitHash,
    ) -> Result<Option<CommitHash>, ReadError> {
        Ok(self.0.ports.engine.merge_base(access.database().id, a, b)?)
    }

    /// Returns up to `limit` commits of a history, starting at a position. Children come before their parents; otherwise the
    /// newest commit comes first.
    ///
    /// # Errors
    /// [`ReadError::Port`].
    pub fn commits<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        at: &LogPosition,
        limit: usize,
    ) -> Result<Vec<LogEntry>, ReadError> {
        Ok(self.0.ports.engine.log(access.database().id, at, limit)?)
    }

    /// Returns the tables that differ between two commits, ordered by name.
    ///
    /// # Errors
    /// [`ReadError::Port`].
    pub fn changed_tables<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        from: &CommitHash,
        to: &CommitHash,
    ) -> Result<Vec<TableChange>, ReadError> {
        Ok(self.0.ports.engine.changed_tables(access.database().id, from, to)?)
    }

    /// Returns a page of the rows of a table that differ between two commits, ordered by primary key.
    ///
    /// # Errors
    /// [`ReadError::NoSuchTable`] if the table exists at neither commit.
    pub fn changed_rows<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        from: &CommitHash,
        to: &CommitHash,
        table: &str,
        page: &RowPage,
    ) -> Result<ChangedRows, ReadError> {
        match self.0.ports.engine.changed_rows(access.database().id, from, to, table, page) {
            Err(EngineError::NoSuchTable(name)) => Err(ReadError::NoSuchTable(name)),
            other => Ok(other?),
        }
    }

    /// Returns the tables and views at a commit, ordered by name.
    ///
    /// # Errors
    /// [`ReadError::Port`].
    pub fn tables<L: Level>(&self, access: &DatabaseAccess<L>, at: &CommitHash) -> Result<Vec<TableSchema>, ReadError> {
        Ok(self.0.ports.engine.tables(access.database().id, at)?)
    }
}
