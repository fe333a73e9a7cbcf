//! Branches and tags.

use super::Result;
use crate::entities::{Branch, Tag};
use crate::values::{CommitHash, DatabaseId, RefName, Timestamp};

/// Branches.
pub trait BranchRepository {
    /// Adds a branch. `Taken` when the name is.
    fn add(&mut self, database: DatabaseId, branch: &Branch) -> Result<()>;
    /// A branch.
    fn get(&mut self, database: DatabaseId, name: &RefName) -> Result<Option<Branch>>;
    /// Moves a branch from `expected` to `head`; gives whether it was at `expected` (compare-and-set).
    fn move_head(
        &mut self,
        database: DatabaseId,
        name: &RefName,
        expected: &CommitHash,
        head: &CommitHash,
        at: Timestamp,
    ) -> Result<bool>;
    /// Removes a branch that is at `expected`; gives whether it was.
    fn remove(&mut self, database: DatabaseId, name: &RefName, expected: &CommitHash) -> Result<bool>;
    /// Branches by name byte-wise, after `after`.
    fn list(&mut self, database: DatabaseId, after: Option<&str>, limit: usize) -> Result<Vec<Branch>>;
}

/// Tags.
pub trait TagRepository {
    /// Adds a tag. `Taken` when the name is.
    fn add(&mut self, database: DatabaseId, tag: &Tag) -> Result<()>;
    /// A tag.
    fn get(&mut self, database: DatabaseId, name: &RefName) -> Result<Option<Tag>>;
    /// Removes a tag; gives whether it existed.
    fn remove(&mut self, database: DatabaseId, name: &RefName) -> Result<bool>;
    /// Tags by name byte-wise, after `after`.
    fn list(&mut self, database: DatabaseId, after: Option<&str>, limit: usize) -> Result<Vec<Tag>>;
}

/// All names of commits in a database.
pub trait RefRepository {
    /// Copies all branches and tags of a database to another that has none.
    fn copy_all(&mut self, from: DatabaseId, to: DatabaseId) -> Result<()>;
    /// Distinct commits that branches, tags and pulls of a database name, ascending, after `after`: of a pull what its merge took, else the heads it
    /// shows once they are fetched.
    fn named_commits(
        &mut self,
        database: DatabaseId,
        after: Option<&CommitHash>,
        limit: usize,
    ) -> Result<Vec<CommitHash>>;
}
