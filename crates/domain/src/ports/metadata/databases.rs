//! Databases, their collaborators and stars.

use std::collections::BTreeMap;

use super::{BranchFacts, Result};
use crate::entities::{Collaborator, Database, DatabaseLocator, FileState, Role, Star, Visibility};
use crate::values::{AccountId, DatabaseId, DatabaseName, OwnerName, RefName, Timestamp};

/// Filters for lists of databases.
#[derive(Debug, Clone, Default)]
pub struct DatabaseFilter {
    /// Databases of this owner.
    pub owner: Option<OwnerName>,
    /// Databases with this text in name or description, compared case-insensitively.
    pub contains: Option<String>,
    /// Databases of this visibility.
    pub visibility: Option<Visibility>,
    /// Databases starred by this user.
    pub starred_by: Option<AccountId>,
    /// Databases that are quarantined, or those that are not.
    pub is_quarantined: Option<bool>,
}

/// Rankings of databases, highest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranking {
    /// By number of stars.
    Stars,
    /// By the time of the last commit. Databases without a commit come last.
    LastWrite,
    /// By the time of creation.
    Creation,
}

impl Ranking {
    /// Returns the sort key of a database: a count, or microseconds since the Unix epoch.
    pub fn of(self, database: &Database) -> i64 {
        match self {
            Self::Stars => database.star_count,
            Self::LastWrite => database.last_write_at.map_or(0, Timestamp::as_micros),
            Self::Creation => database.created_at.as_micros(),
        }
    }
}

/// What became of the bytes by which the file of a database changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeChange {
    /// Settled work added them.
    Added,
    /// Work without an effect left them.
    Wasted,
    /// A garbage collection removed what was not in use.
    Collected,
}

/// The repository of databases.
pub trait DatabaseRepository {
    /// Adds a database. Returns `MetadataError::Taken` if its owner has a live database of that name. Its address no longer forwards
    /// to another database.
    fn add(&mut self, database: &Database) -> Result<()>;
    /// Returns the live database with this owner and name, compared case-insensitively.
    fn by_name(&mut self, owner: &OwnerName, name: &DatabaseName) -> Result<Option<Database>>;
    /// Returns the database with this id, even if it is deleted.
    fn get(&mut self, id: DatabaseId) -> Result<Option<Database>>;
    /// Returns what decides whether a user may write to a branch of the database with this id, and what follows from it, in one statement.
    fn branch_facts(
        &mut self,
        id: DatabaseId,
        branch: &RefName,
        user: AccountId,
        now: Timestamp,
    ) -> Result<Option<BranchFacts>>;
    /// Returns the databases with these ids, even deleted ones, in any order. Ids without a database are skipped.
    fn get_all(&mut self, ids: &[DatabaseId]) -> Result<Vec<Database>>;
    /// Updates description, visibility, default branch, `anonymous_sql`, `last_write_at`, `size_bytes`, `deleted_at`
    /// and `quarantined_at` if the stored version equals `database.version`, and increments the version. Returns `false` if the versions differ.
    fn update(&mut self, database: &Database) -> Result<bool>;
    /// Changes the owner and the name to those of `database` if the stored version equals `database.version`, and increments the
    /// version. Pull requests from the database show the new names. The address that it had becomes a former one, which forwards until
    /// a database has it; the `most` newest are kept. Returns `false` if the versions differ, and `MetadataError::Taken` if the owner
    /// has a live database of that name.
    fn rename(&mut self, database: &Database, most: usize) -> Result<bool>;
    /// Returns the live database that had this owner and name before, compared case-insensitively, and that no other database has
    /// taken them from. The owner exists.
    fn by_former_name(&mut self, owner: &OwnerName, name: &DatabaseName) -> Result<Option<Database>>;
    /// Lists the addresses that forward to a database, the newest first.
    fn former_names(&mut self, id: DatabaseId) -> Result<Vec<DatabaseLocator>>;
    /// Ends the forwards to a database.
    fn clear_former_names(&mut self, id: DatabaseId) -> Result<()>;
    /// Records the time of a write and the state of the file, as [`SizeChange::Added`], without incrementing the
    /// version.
    fn record_write(&mut self, id: DatabaseId, at: Timestamp, file: FileState) -> Result<()>;
    /// Records the state of the file, without incrementing the version. Bytes that were added count as in use, and after
    /// a collection all of them do.
    fn record_file(&mut self, id: DatabaseId, file: FileState, change: SizeChange) -> Result<()>;
    /// Increments the generation, without incrementing the version.
    fn next_generation(&mut self, id: DatabaseId) -> Result<()>;
    /// Lists the live databases of a fork network by id, ascending, after `after`.
    fn list_network(&mut self, network: DatabaseId, after: Option<DatabaseId>, limit: usize) -> Result<Vec<Database>>;
    /// Lists live databases visible to `viewer`, by lower-case owner and name, after that pair. Only administrators of
    /// the server see a quarantined database, whatever its visibility. The same holds for the other lists of databases
    /// visible to a viewer.
    fn list(
        &mut self,
        viewer: Option<AccountId>,
        filter: &DatabaseFilter,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<Database>>;
    /// Lists live databases visible to `viewer`, by ranking and then by id, both descending. `after` is the sort key
    /// ([`Ranking::of`]) and id of the last item of the previous page.
    fn list_ranked(
        &mut self,
        viewer: Option<AccountId>,
        filter: &DatabaseFilter,
        ranking: Ranking,
        after: Option<(i64, DatabaseId)>,
        limit: usize,
    ) -> Result<Vec<Database>>;
    /// Lists all live databases, also hidden ones, by lower-case owner and name, after that pair.
    fn list_all(&mut self, filter: &DatabaseFilter, after: Option<(&str, &str)>, limit: usize)
    -> Result<Vec<Database>>;
    /// Lists live databases that a user owns, or has a role on as a collaborator or through an organization, by time
    /// of the last write, newest first. Quarantined databases are left out, unless the user administers the server.
    fn list_of_user(&mut self, user: AccountId, limit: usize) -> Result<Vec<Database>>;
    /// Counts the live databases of an owner.
    fn count(&mut self, owner: AccountId) -> Result<u64>;
    /// Returns the bytes of an owner's live databases: the sizes of their files, the announced sizes of their uploads, and
    /// the stored texts of their operations.
    fn bytes_of(&mut self, owner: AccountId) -> Result<u64>;
    /// Lists live direct forks visible to `viewer`, by lower-case owner and name, after that pair.
    fn list_forks(
        &mut self,
        viewer: Option<AccountId>,
        parent: DatabaseId,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<Database>>;
    /// Counts the live forks in each of these fork networks that are visible to `viewer`. Networks without one are left
    /// out.
    fn count_forks(&mut self, viewer: Option<AccountId>, networks: &[DatabaseId]) -> Result<BTreeMap<DatabaseId, u64>>;
    /// Lists the ids of all live databases, ascending, after `after`.
    fn ids(&mut self, after: Option<DatabaseId>, limit: usize) -> Result<Vec<DatabaseId>>;
}

/// The repository of collaborators of databases.
pub trait CollaboratorRepository {
    /// Adds a collaborator or changes their role. Returns `true` if the collaborator is new.
    fn put(&mut self, database: DatabaseId, user: AccountId, role: Role, at: Timestamp) -> Result<bool>;
    /// Returns a collaborator.
    fn get(&mut self, database: DatabaseId, user: AccountId) -> Result<Option<Collaborator>>;
    /// Returns the roles that a user has as a collaborator on these databases.
    fn roles(&mut self, user: AccountId, databases: &[DatabaseId]) -> Result<BTreeMap<DatabaseId, Role>>;
    /// Removes a collaborator and returns it.
    fn remove(&mut self, database: DatabaseId, user: AccountId) -> Result<Option<Collaborator>>;
    /// Lists collaborators by lower-case name, after `after`.
    fn list(&mut self, database: DatabaseId, after: Option<&str>, limit: usize) -> Result<Vec<Collaborator>>;
}

/// The repository of stars. Each method that changes stars also updates the `star_count` of the database.
pub trait StarRepository {
    /// Adds a star. Returns `true` if it is new.
    fn add(&mut self, database: DatabaseId, user: AccountId, at: Timestamp) -> Result<bool>;
    /// Removes a star. Returns `true` if it existed.
    fn remove(&mut self, database: DatabaseId, user: AccountId) -> Result<bool>;
    /// Returns the star of a user.
    fn get(&mut self, database: DatabaseId, user: AccountId) -> Result<Option<Star>>;
    /// Lists the stars of a database by lower-case user name, after `after`.
    fn list(&mut self, database: DatabaseId, after: Option<&str>, limit: usize) -> Result<Vec<Star>>;
    /// Removes all stars of a database.
    fn clear(&mut self, database: DatabaseId) -> Result<()>;
}
