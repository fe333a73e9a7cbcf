//! Databases and who may do what on them.

use crate::values::{AccountId, DatabaseId, DatabaseName, OwnerName, RefName, Timestamp};

/// Who can see a database without a role of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// Everyone reads.
    Public,
    /// Only those with a role.
    Private,
}

/// What a caller may do on a database; ordered, each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// See and query.
    Read,
    /// Change data, branches, tags, releases; merge.
    Write,
    /// Settings, collaborators, hooks, deletion.
    Admin,
}

/// Owner and name as people write them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseLocator {
    /// Owner, as chosen at creation.
    pub owner: OwnerName,
    /// Name, as chosen at creation.
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
    /// Its id; names its engine file.
    pub id: DatabaseId,
    /// Who owns it.
    pub owner_id: AccountId,
    /// Owner and name.
    pub locator: DatabaseLocator,
    /// What it is, if said.
    pub description: Option<String>,
    /// Who sees it.
    pub visibility: Visibility,
    /// The branch an absent ref means.
    pub default_branch: RefName,
    /// What it was forked from, also after that was deleted.
    pub parent_id: Option<DatabaseId>,
    /// The database its fork network started with; its own id when it is the start.
    pub network_id: DatabaseId,
    /// When it was created.
    pub created_at: Timestamp,
    /// When a commit last arrived.
    pub last_write_at: Option<Timestamp>,
    /// Bytes of its engine file, as of the last write.
    pub size_bytes: i64,
    /// How many people starred it.
    pub star_count: i64,
    /// Counts changes to this row; lost updates are found by it.
    pub version: i64,
    /// When it was deleted. Deleted databases are kept for their operations and are otherwise invisible.
    pub deleted_at: Option<Timestamp>,
}

/// A user with a role of their own on a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collaborator {
    /// The user.
    pub user_id: AccountId,
    /// The user's name.
    pub username: OwnerName,
    /// What they may do.
    pub role: Role,
    /// Since when.
    pub added_at: Timestamp,
}

/// What a user keeps a database in mind by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Star {
    /// The user.
    pub user_id: AccountId,
    /// The user's name.
    pub username: OwnerName,
    /// Since when.
    pub starred_at: Timestamp,
}
