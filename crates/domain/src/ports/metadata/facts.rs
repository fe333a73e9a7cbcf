//! What several look-ups would find, read at once.
//!
//! A store on another machine takes a round trip for each statement. What the first steps of a request need is therefore read in one
//! statement, and so is what the transaction needs that moves a branch.

use crate::entities::{Database, MemberRole, Role, Token, User};
use crate::values::{CommitHash, DatabaseName, OwnerName, RefName};

/// What a user's role on a database follows from, besides the database and the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoleSources {
    /// The role in the organization that owns the database, and the role that the organization gives to its members.
    pub member: Option<(MemberRole, Role)>,
    /// The role as a collaborator.
    pub collaborator: Option<Role>,
}

/// What the first look-ups of a request concern.
#[derive(Debug, Clone)]
pub struct RequestTarget {
    /// The owner of the database.
    pub owner: OwnerName,
    /// The name of the database.
    pub name: DatabaseName,
    /// The branch; `None` for the default branch.
    pub branch: Option<RefName>,
}

impl RequestTarget {
    /// Returns the target of a request, or `None` if the names belong to no database. A ref that is not plainly the name of a branch
    /// is left to a look-up of its own.
    pub fn parse(owner: &str, name: &str, reference: Option<&str>) -> Option<Self> {
        let is_branch = |name: &&str| *name != "HEAD" && CommitHash::parse(name).is_err();
        let branch = reference.filter(is_branch).and_then(|name| RefName::parse(name).ok());
        Some(Self { owner: OwnerName::parse(owner).ok()?, name: DatabaseName::parse(name).ok()?, branch })
    }
}

/// What the first look-ups of a request find.
#[derive(Debug, Clone)]
pub struct RequestFacts {
    /// The token of the request.
    pub token: Token,
    /// The user of the token.
    pub user: User,
    /// The database of the request, if it exists and was read.
    pub database: Option<TargetDatabase>,
}

impl RequestFacts {
    /// Returns the facts of a request of which only the token was looked up.
    pub fn of_token((token, user): (Token, User)) -> Self {
        Self { token, user, database: None }
    }
}

/// A database that a request concerns.
#[derive(Debug, Clone)]
pub struct TargetDatabase {
    /// The database.
    pub database: Database,
    /// What the role of the user follows from.
    pub sources: RoleSources,
    /// The head of the branch, if it exists.
    pub head: Option<CommitHash>,
}

/// What decides whether a user may write to a branch now, and what follows from it.
#[derive(Debug, Clone)]
pub struct BranchFacts {
    /// The database, which may be deleted.
    pub database: Database,
    /// Whether operations or a garbage collection go first.
    pub is_held_up: bool,
    /// The head of the branch, if it exists.
    pub head: Option<CommitHash>,
    /// Whether the database has webhooks.
    pub has_hooks: bool,
    /// Whether open pull requests start at the branch.
    pub has_pulls: bool,
    /// What the role of the user follows from. `None` if the user is suspended or deleted.
    pub writer: Option<RoleSources>,
}
