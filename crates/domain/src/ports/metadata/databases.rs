//! Databases, their collaborators and stars.

use super::Result;
use crate::entities::{Collaborator, Database, Role, Star, Visibility};
use crate::values::{AccountId, DatabaseId, DatabaseName, OwnerName, Timestamp};

/// Filters of the list of databases.
#[derive(Debug, Clone, Default)]
pub struct DatabaseFilter {
    /// Only of this owner.
    pub owner: Option<OwnerName>,
    /// Only with this in name or description, whatever the case.
    pub contains: Option<String>,
    /// Only of this visibility.
    pub visibility: Option<Visibility>,
    /// Only those that this user starred.
    pub starred_by: Option<AccountId>,
}

/// What databases are ranked by, the highest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranking {
    /// How many people starred them.
    Stars,
    /// When a commit last arrived; those without any come last.
    LastWrite,
    /// When they were created.
    Creation,
}

impl Ranking {
    /// What puts a database in its place.
    pub fn of(self, database: &Database) -> i64 {
        match self {
            Self::Stars => database.star_count,
            Self::LastWrite => database.last_write_at.map_or(0, Timestamp::as_micros),
            Self::Creation => database.created_at.as_micros(),
        }
    }
}

/// Databases.
pub trait DatabaseRepository {
    /// Adds a database. `Taken` when its owner has one of that name.
    fn add(&mut self, database: &Database) -> Result<()>;
    /// A live database by owner and name, whatever the case.
    fn by_name(&mut self, owner: &OwnerName, name: &DatabaseName) -> Result<Option<Database>>;
    /// A database by id, deleted ones included.
    fn get(&mut self, id: DatabaseId) -> Result<Option<Database>>;
    /// Changes description, visibility, default branch, `last_write_at`, `size_bytes`, `deleted_at` of the row, if its version
    /// still is `database.version`; the version then counts up. Gives whether it was changed.
    fn update(&mut self, database: &Database) -> Result<bool>;
    /// Notes the time of a write and the size of the file, without a new version.
    fn record_write(&mut self, id: DatabaseId, at: Timestamp, size_bytes: i64) -> Result<()>;
    /// Live databases visible to `viewer`, by lower-case owner, then name, after that pair.
    fn list(
        &mut self,
        viewer: Option<AccountId>,
        filter: &DatabaseFilter,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<Database>>;
    /// Live databases visible to `viewer`, the highest in the ranking first, among equals by id descending, after the place and the id
    /// of the last one seen.
    fn list_ranked(
        &mut self,
        viewer: Option<AccountId>,
        filter: &DatabaseFilter,
        ranking: Ranking,
        after: Option<(i64, DatabaseId)>,
        limit: usize,
    ) -> Result<Vec<Database>>;
    /// Live databases that a user owns, or has a role on as a collaborator or through an organization; those written to last come first.
    fn list_of_user(&mut self, user: AccountId, limit: usize) -> Result<Vec<Database>>;
    /// How many live databases an account owns.
    fn count(&mut self, owner: AccountId) -> Result<u64>;
    /// Live direct forks visible to `viewer`, by lower-case owner, then name, after that pair.
    fn list_forks(
        &mut self,
        viewer: Option<AccountId>,
        parent: DatabaseId,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<Database>>;
    /// How many live databases of a network that `viewer` sees are forks.
    fn count_forks(&mut self, viewer: Option<AccountId>, network: DatabaseId) -> Result<u64>;
    /// Ids of all live databases, ascending, after `after`.
    fn ids(&mut self, after: Option<DatabaseId>, limit: usize) -> Result<Vec<DatabaseId>>;
}

/// Collaborators of databases.
pub trait CollaboratorRepository {
    /// Adds or changes a collaborator; gives whether it was added.
    fn put(&mut self, database: DatabaseId, user: AccountId, role: Role, at: Timestamp) -> Result<bool>;
    /// A collaborator.
    fn get(&mut self, database: DatabaseId, user: AccountId) -> Result<Option<Collaborator>>;
    /// Removes a collaborator; gives it as it was.
    fn remove(&mut self, database: DatabaseId, user: AccountId) -> Result<Option<Collaborator>>;
    /// Collaborators by lower-case name, after `after`.
    fn list(&mut self, database: DatabaseId, after: Option<&str>, limit: usize) -> Result<Vec<Collaborator>>;
}

/// Stars. Each method that changes them changes the `star_count` of the database with them.
pub trait StarRepository {
    /// Adds a star; gives whether it is new.
    fn add(&mut self, database: DatabaseId, user: AccountId, at: Timestamp) -> Result<bool>;
    /// Removes a star; gives whether there was one.
    fn remove(&mut self, database: DatabaseId, user: AccountId) -> Result<bool>;
    /// The star of a user.
    fn get(&mut self, database: DatabaseId, user: AccountId) -> Result<Option<Star>>;
    /// Stars of a database by lower-case name of the user, after `after`.
    fn list(&mut self, database: DatabaseId, after: Option<&str>, limit: usize) -> Result<Vec<Star>>;
    /// Removes all stars of a database.
    fn clear(&mut self, database: DatabaseId) -> Result<()>;
}
