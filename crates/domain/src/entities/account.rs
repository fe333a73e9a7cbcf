//! Users and organizations.

use super::Role;
use crate::values::{AccountId, OwnerName, Timestamp};

/// The kind of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountKind {
    /// A user.
    User,
    /// A group of people that owns databases together.
    Organization,
}

/// A user or an organization: the fields that both share, and an owner of databases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Id of the account. Ids are never reused.
    pub id: AccountId,
    /// Name in the spelling chosen at creation.
    pub name: OwnerName,
    /// User or organization.
    pub kind: AccountKind,
}

/// A name that a deleted account held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetiredName {
    /// Id of the account.
    pub id: AccountId,
    /// When the account was deleted.
    pub at: Timestamp,
    /// The user who deleted the organization. `None` for a user.
    pub by: Option<AccountId>,
}

/// An email address of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Email {
    /// The address.
    pub address: String,
    /// Whether commits carry this address. At most one address is primary.
    pub is_primary: bool,
    /// Whether the user has proven ownership of the address.
    pub is_verified: bool,
}

/// A user account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Account id.
    pub id: AccountId,
    /// User name.
    pub name: OwnerName,
    /// Display name, shown beside the user name.
    pub display_name: Option<String>,
    /// Short biography.
    pub bio: Option<String>,
    /// Location.
    pub location: Option<String>,
    /// URL of the user's website.
    pub website_url: Option<String>,
    /// URL of the profile picture.
    pub profile_pic_url: Option<String>,
    /// Email addresses, the primary one first.
    pub emails: Vec<Email>,
    /// Password hash as a PHC string. `None` if no password is set.
    pub password_hash: Option<String>,
    /// Whether the user administers the server.
    pub is_admin: bool,
    /// When an administrator suspended the user. A suspended user can neither sign in nor use tokens.
    pub suspended_at: Option<Timestamp>,
    /// When the account was created.
    pub created_at: Timestamp,
}

impl User {
    /// Returns id and name.
    pub fn named(&self) -> (AccountId, &OwnerName) {
        (self.id, &self.name)
    }

    /// Returns the author signature of commits by this user.
    pub fn signature(&self, at: Timestamp) -> super::Signature {
        let email = self.emails.iter().find(|e| e.is_primary).or(self.emails.first());
        super::Signature {
            name: self.display_name.clone().filter(|n| !n.trim().is_empty()).unwrap_or_else(|| self.name.to_string()),
            email: email.map(|e| e.address.clone()).unwrap_or_default(),
            at,
        }
    }
}

/// A group of users that owns databases together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Organization {
    /// Account id.
    pub id: AccountId,
    /// Name. Cannot be changed.
    pub name: OwnerName,
    /// Display name, shown beside the name.
    pub display_name: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// Role of members without ownership on every database of the organization.
    pub base_role: Role,
    /// When the organization was created.
    pub created_at: Timestamp,
}

/// A role in an organization. Each role includes the roles before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberRole {
    /// Has the base role on the databases of the organization.
    Member,
    /// Administers the organization and all of its databases.
    Owner,
}

/// Membership of a user in an organization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The user.
    pub user_id: AccountId,
    /// Name of the user.
    pub username: OwnerName,
    /// Role of the user.
    pub role: MemberRole,
    /// When the user was added.
    pub added_at: Timestamp,
}
