//! Databases and roles on them.

use crate::values::{AccountId, DatabaseId, DatabaseName, OwnerName, RefName, Timestamp};

/// The visibility of a database for callers without a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// Readable by everyone.
    Public,
    /// Hidden from callers without a role.
    Private,
}

/// A role on a database. Each role includes the roles before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// See and query.
    Read,
    /// Change data, branches, tags and releases; merge.
    Write,
    /// Change settings, collaborators and hooks; delete the database.
    Admin,
}

/// Owner and name of a database, as in `owner/name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseLocator {
    /// Name of the owner, spelled as chosen at creation.
    pub owner: OwnerName,
    /// Name of the database, spelled as chosen at creation.
    pub name: DatabaseName,
}

impl std::fmt::Display for DatabaseLocator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// A versioned database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    /// Id of the database, which also names its engine file.
    pub id: DatabaseId,
    /// The owner.
    pub owner_id: AccountId,
    /// Owner and name.
    pub locator: DatabaseLocator,
    /// Description.
    pub description: Option<String>,
    /// Visibility.
    pub visibility: Visibility,
    /// The branch that requests without a ref use.
    pub default_branch: RefName,
    /// Whether anonymous callers that see the database may run SQL, if the server allows it at all.
    pub anonymous_sql: bool,
    /// Whether the database follows one of another server. Nothing else writes to it then.
    pub is_mirror: bool,
    /// The database that this one was forked from. Kept after the parent is deleted.
    pub parent_id: Option<DatabaseId>,
    /// The root of the fork network: the database's own id if it is not a fork.
    pub network_id: DatabaseId,
    /// When the database was created.
    pub created_at: Timestamp,
    /// Time of the last write.
    pub last_write_at: Option<Timestamp>,
    /// Size of the engine file as of the last write, in bytes.
    pub size_bytes: i64,
    /// Size of the file after its last collection, and what settled work has added since, in bytes.
    pub live_bytes: i64,
    /// Format of the engine file, as the engine numbers its formats.
    pub engine_format: u32,
    /// Number of stars.
    pub star_count: i64,
    /// Version of the row, incremented by each change. Detects lost updates.
    pub version: i64,
    /// Number of garbage collections that took effect. A transaction that stores a hash which was read from the engine
    /// before must find the number unchanged, or the commit may be gone.
    pub generation: i64,
    /// When the database was deleted. Deleted databases are retained for their operations and are otherwise
    /// invisible.
    pub deleted_at: Option<Timestamp>,
    /// When an administrator of the server quarantined the database. Only administrators of the server see a
    /// quarantined database, and its operations and deliveries wait.
    pub quarantined_at: Option<Timestamp>,
}

impl Database {
    /// The most addresses that forward to a database. A further rename or transfer drops the oldest.
    pub const MOST_FORMER_NAMES: usize = 20;

    /// Returns an estimate of what a garbage collection would free, in bytes. What deleted refs kept is not known
    /// before a collection, and not part of the estimate.
    pub fn garbage_bytes(&self) -> i64 {
        self.size_bytes.saturating_sub(self.live_bytes).max(0)
    }
}

/// What the engine reports about the file of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// Size of the file in bytes.
    pub size_bytes: i64,
    /// Format of the file, as the engine numbers its formats.
    pub engine_format: u32,
}

/// A user with a role on a database granted to them directly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collaborator {
    /// The user.
    pub user_id: AccountId,
    /// Name of the user.
    pub username: OwnerName,
    /// Role of the user.
    pub role: Role,
    /// When the user was added.
    pub added_at: Timestamp,
}

/// The star of a user on a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Star {
    /// The user.
    pub user_id: AccountId,
    /// Name of the user.
    pub username: OwnerName,
    /// When the user added the star.
    pub starred_at: Timestamp,
}
