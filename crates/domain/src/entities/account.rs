//! People and organizations.

use super::Role;
use crate::values::{AccountId, OwnerName, Timestamp};

/// What an account is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountKind {
    /// A person.
    User,
    /// A group of people that owns databases together.
    Organization,
}

/// Whoever can own a database: the part users and organizations share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its id, never reused.
    pub id: AccountId,
    /// Its name in the spelling chosen at creation.
    pub name: OwnerName,
    /// User or organization.
    pub kind: AccountKind,
}

/// An address of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Email {
    /// The address.
    pub address: String,
    /// Whether commits carry it; at most one does.
    pub is_primary: bool,
    /// Whether the user has shown that it is theirs.
    pub is_verified: bool,
}

/// A person with an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Account id.
    pub id: AccountId,
    /// User name.
    pub name: OwnerName,
    /// Shown beside the name.
    pub display_name: Option<String>,
    /// A few words about the person.
    pub bio: Option<String>,
    /// Where the person is.
    pub location: Option<String>,
    /// The person's site.
    pub website_url: Option<String>,
    /// A picture.
    pub profile_pic_url: Option<String>,
    /// Addresses, the primary one first.
    pub emails: Vec<Email>,
    /// PHC string of the password, when one is set.
    pub password_hash: Option<String>,
    /// Whether the person administers the server.
    pub is_admin: bool,
    /// When the account was made.
    pub created_at: Timestamp,
}

impl User {
    /// Id and name.
    pub fn named(&self) -> (AccountId, &OwnerName) {
        (self.id, &self.name)
    }

    /// Name and address that commits by this user carry.
    pub fn signature(&self, at: Timestamp) -> super::Signature {
        let email = self.emails.iter().find(|e| e.is_primary).or(self.emails.first());
        super::Signature {
            name: self.display_name.clone().filter(|n| !n.trim().is_empty()).unwrap_or_else(|| self.name.to_string()),
            email: email.map(|e| e.address.clone()).unwrap_or_default(),
            at,
        }
    }
}

/// A group of people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Organization {
    /// Account id.
    pub id: AccountId,
    /// Name, fixed.
    pub name: OwnerName,
    /// Shown beside the name.
    pub display_name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Role of plain members on every database of the organization.
    pub base_role: Role,
    /// When it was made.
    pub created_at: Timestamp,
}

/// What a member may do in the organization itself; ordered, each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberRole {
    /// Has the base role on its databases.
    Member,
    /// Administers the organization and every database of it.
    Owner,
}

/// Membership of a user in an organization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The user.
    pub user_id: AccountId,
    /// The user's name.
    pub username: OwnerName,
    /// Owner or member.
    pub role: MemberRole,
    /// Since when.
    pub added_at: Timestamp,
}
