//! Users, organizations and memberships.

use super::Result;
use crate::entities::{Account, Email, Member, MemberRole, Organization, User};
use crate::values::{AccountId, OwnerName, Timestamp};

/// Names of users and organizations, which share one namespace.
pub trait AccountRepository {
    /// The account of a name, whatever the case; not that of an organization that was removed.
    fn by_name(&mut self, name: &OwnerName) -> Result<Option<Account>>;
}

/// Users with their email addresses.
pub trait UserRepository {
    /// Adds a user with their addresses. `Taken` when the name is.
    fn add(&mut self, user: &User) -> Result<()>;
    /// A user with their addresses.
    fn get(&mut self, id: AccountId) -> Result<Option<User>>;
    /// Changes what a user says of themselves, their password and whether they administer the server; gives whether the user is
    /// there.
    fn update(&mut self, user: &User) -> Result<bool>;
    /// Replaces the addresses of a user.
    fn set_emails(&mut self, user: AccountId, emails: &[Email]) -> Result<()>;
    /// Whether there is any user.
    fn any(&mut self) -> Result<bool>;
}

/// Organizations.
pub trait OrganizationRepository {
    /// Adds an organization. `Taken` when the name is.
    fn add(&mut self, organization: &Organization) -> Result<()>;
    /// An organization.
    fn get(&mut self, id: AccountId) -> Result<Option<Organization>>;
    /// Changes display name, description and base role; gives whether the organization is there.
    fn update(&mut self, organization: &Organization) -> Result<bool>;
    /// What an organization owns besides databases, of that which crates over this one keep in the same store; `None` if nothing. The word is plural,
    /// for a sentence.
    fn owns_others(&mut self, id: AccountId) -> Result<Option<&'static str>>;
    /// Removes an organization and its memberships. Its name is free then; its id stays taken, because databases that were
    /// deleted go on naming it.
    fn remove(&mut self, id: AccountId, at: Timestamp) -> Result<()>;
    /// The organizations of a user with the user's role, by lower-case name, after `after`.
    fn list(&mut self, user: AccountId, after: Option<&str>, limit: usize) -> Result<Vec<(Organization, MemberRole)>>;
}

/// Memberships in organizations.
pub trait MemberRepository {
    /// Adds or changes a membership; gives whether it was added.
    fn put(&mut self, organization: AccountId, user: AccountId, role: MemberRole, at: Timestamp) -> Result<bool>;
    /// A membership.
    fn get(&mut self, organization: AccountId, user: AccountId) -> Result<Option<Member>>;
    /// Removes a membership; gives it as it was.
    fn remove(&mut self, organization: AccountId, user: AccountId) -> Result<Option<Member>>;
    /// Members by lower-case name, after `after`.
    fn list(&mut self, organization: AccountId, after: Option<&str>, limit: usize) -> Result<Vec<Member>>;
    /// How many owners an organization has.
    fn count_owners(&mut self, organization: AccountId) -> Result<u64>;
}
