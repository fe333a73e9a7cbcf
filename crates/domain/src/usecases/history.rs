//! History: commits, differences between commits, and table definitions at a commit.

use super::{Inner, at_time, revisions};
use crate::access::{DatabaseAccess, Level};
use crate::entities::{Commit, LogEntry, LogPosition, TableChange, TableSchema};
use crate::errors::{AtTimeError, ReadError};
use crate::ports::{ChangedRows, EngineError, RowPage};
use crate::values::{CommitHash, Timestamp};

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

    /// Returns the last commit that a branch had at a time. `None` means the default branch. The log of changes of branches says so as
    /// far as it reaches back; before, it is the first of the first parents that is not younger than the time.
    ///
    /// # Errors
    /// [`AtTimeError::NotABranch`] for a tag or a commit; [`AtTimeError::NotThen`] if the branch is younger.
    pub fn at_time<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        branch: Option<&str>,
        at: Timestamp,
    ) -> Result<CommitHash, AtTimeError> {
        at_time::commit_at(self.0, access.database(), branch, at)
    }

    /// Returns the commit of a branch whose first parent is `commit`, looking at the `most` newest commits of the branch. Returns
    /// `None` if it is not among them.
    ///
    /// # Errors
    /// [`ReadError::Port`].
    pub fn commit_after<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        branch: &str,
        commit: &CommitHash,
        most: usize,
    ) -> Result<Option<CommitHash>, ReadError> {
        Ok(at_time::commit_after(self.0, access.database(), branch, commit, most)?)
    }

    /// Returns the head of a branch, its first parent, and so on, newest first, looking at the `most` newest commits of the branch.
    /// Without such a branch there are none.
    ///
    /// # Errors
    /// [`ReadError::Port`].
    pub fn versions<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        branch: &str,
        most: usize,
    ) -> Result<Vec<Commit>, ReadError> {
        Ok(at_time::versions(self.0, access.database(), branch, most)?)
    }

    /// Returns a commit that a ref resolved to.
    ///
    /// # Errors
    /// [`ReadError::Port`].
    pub fn commit<L: Level>(&self, access: &DatabaseAccess<L>, hash: &CommitHash) -> Result<Option<Commit>, ReadError> {
        Ok(self.0.ports.engine.commit(access.database().id, hash)?)
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
