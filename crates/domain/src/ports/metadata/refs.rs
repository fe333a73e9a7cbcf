//! Branches and tags.

use super::Result;
use crate::entities::{Branch, RefChange, Tag};
use crate::values::{CommitHash, DatabaseId, RefName, Timestamp};

/// The repository of branches. Methods that change a branch record the change, unless `change` is `None`.
pub trait BranchRepository {
    /// Adds a branch. Returns `MetadataError::Taken` if the name is in use.
    fn add(&mut self, database: DatabaseId, branch: &Branch, change: Option<RefChange>) -> Result<()>;
    /// Returns a branch.
    fn get(&mut self, database: DatabaseId, name: &RefName) -> Result<Option<Branch>>;
    /// Moves a branch from `expected` to `head` (compare-and-set). Returns `false` if the branch is not at
    /// `expected`.
    fn move_head(
        &mut self,
        database: DatabaseId,
        name: &RefName,
        expected: &CommitHash,
        head: &CommitHash,
        at: Timestamp,
        change: Option<RefChange>,
    ) -> Result<bool>;
    /// Removes a branch that is at `expected`. Returns `false` if the branch is not at `expected`.
    fn remove(
        &mut self,
        database: DatabaseId,
        name: &RefName,
        expected: &CommitHash,
        change: Option<RefChange>,
    ) -> Result<bool>;
    /// Lists branches by name in byte order, after `after`.
    fn list(&mut self, database: DatabaseId, after: Option<&str>, limit: usize) -> Result<Vec<Branch>>;
}

/// The repository of tags. Methods that change a tag record the change, unless `change` is `None`.
pub trait TagRepository {
    /// Adds a tag. Returns `MetadataError::Taken` if the name is in use.
    fn add(&mut self, database: DatabaseId, tag: &Tag, change: Option<RefChange>) -> Result<()>;
    /// Returns a tag.
    fn get(&mut self, database: DatabaseId, name: &RefName) -> Result<Option<Tag>>;
    /// Removes a tag. Returns `true` if it existed.
    fn remove(&mut self, database: DatabaseId, name: &RefName, change: Option<RefChange>) -> Result<bool>;
    /// Lists tags by name in byte order, after `after`.
    fn list(&mut self, database: DatabaseId, after: Option<&str>, limit: usize) -> Result<Vec<Tag>>;
}

/// How many branches, tags, releases and open pull requests a database has, each counted up to a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatabaseCounts {
    /// Branches.
    pub branches: usize,
    /// Tags.
    pub tags: usize,
    /// Releases.
    pub releases: usize,
    /// Open pull requests to the database.
    pub open_pulls: usize,
}

/// The repository of refs of all kinds in a database.
pub trait RefRepository {
    /// Counts the branches, tags, releases and open pull requests of a database, each up to `most`, which the cost depends on.
    fn counts(&mut self, database: DatabaseId, most: usize) -> Result<DatabaseCounts>;
    /// Copies all branches and tags of a database to a database without any. They count as there since the creation of that database.
    fn copy_all(&mut self, from: DatabaseId, to: DatabaseId) -> Result<()>;
    /// Lists the distinct commits that branches, tags and pull requests of a database refer to, ascending, after
    /// `after`. A merged pull request refers to the commits of its merge, any other one to its heads once they are
    /// fetched. The head of another database that is quarantined is left out.
    fn named_commits(
        &mut self,
        database: DatabaseId,
        after: Option<&CommitHash>,
        limit: usize,
    ) -> Result<Vec<CommitHash>>;
    /// Lists the distinct commits that a garbage collection has to keep, ascending, after `after`: those of
    /// [`RefRepository::named_commits`], all heads of pull requests, fetched or not, and, with `left_since`, those that
    /// refs left behind after it.
    fn kept_commits(
        &mut self,
        database: DatabaseId,
        left_since: Option<Timestamp>,
        after: Option<&CommitHash>,
        limit: usize,
    ) -> Result<Vec<CommitHash>>;
}
