//! Users, organizations and memberships.

use std::collections::BTreeMap;

use super::Result;
use crate::entities::{Account, Email, Member, MemberRole, Organization, RetiredName, Role, User};
use crate::values::{AccountId, OwnerName, Timestamp};

/// The repository of names of users and organizations, which share one namespace.
pub trait AccountRepository {
    /// Returns the account with this name, compared case-insensitively. Deleted accounts are not found.
    fn by_name(&mut self, name: &OwnerName) -> Result<Option<Account>>;
    /// Returns the newest deletion of an account with this name, compared case-insensitively.
    fn retired(&mut self, name: &OwnerName) -> Result<Option<RetiredName>>;
    /// Forgets the names of erased accounts that were deleted before `before`. Returns how many.
    fn forget_names(&mut self, before: Timestamp) -> Result<u64>;
}

/// Filters for lists of users.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserFilter {
    /// Users with this text in their name, compared case-insensitively. No user matches a text longer than
    /// [`UserFilter::MAX_CONTAINS`].
    pub contains: Option<String>,
    /// Users that are suspended, or those that are not.
    pub is_suspended: Option<bool>,
    /// Users that administer the server, or those that do not.
    pub is_admin: Option<bool>,
}

impl UserFilter {
    /// Maximum length of the search text, in bytes. SQLite rejects patterns above 50,000 bytes.
    pub const MAX_CONTAINS: usize = 20_000;
}

/// The repository of users with their email addresses.
pub trait UserRepository {
    /// Adds a user with their email addresses. Returns `MetadataError::Taken` if the name is in use.
    fn add(&mut self, user: &User) -> Result<()>;
    /// Returns a user with their email addresses, unless the user is deleted.
    fn get(&mut self, id: AccountId) -> Result<Option<User>>;
    /// Updates the profile, the password hash, the administrator flag and the suspension of a user. Returns `false` if
    /// the user does not exist.
    fn update(&mut self, user: &User) -> Result<bool>;
    /// Replaces the email addresses of a user.
    fn set_emails(&mut self, user: AccountId, emails: &[Email]) -> Result<()>;
    /// Returns `true` if there is at least one user.
    fn any(&mut self) -> Result<bool>;
    /// Lists users by lower-case name, after `after`.
    fn list(&mut self, filter: &UserFilter, after: Option<&str>, limit: usize) -> Result<Vec<User>>;
    /// Counts the administrators of the server that are not suspended.
    fn count_active_admins(&mut self) -> Result<u64>;
    /// Returns the time of the last recorded use of a token or session of the user that still exists.
    fn last_seen(&mut self, id: AccountId) -> Result<Option<Timestamp>>;
    /// Deletes a user, with password, tokens, sessions, memberships, stars, saved answers, roles on databases and
    /// deployments, and the invitations that the user created. Name and id stay, because pull requests, comments and
    /// operations refer to them.
    fn remove(&mut self, id: AccountId, at: Timestamp) -> Result<()>;
    /// Erases the personal data of a deleted user: profile, email addresses, and settled operations that the user
    /// created. What stays shows [`OwnerName::deleted_user`] in place of the name, which only
    /// [`AccountRepository::retired`] still knows.
    fn erase(&mut self, id: AccountId) -> Result<()>;
}

/// The repository of organizations.
pub trait OrganizationRepository {
    /// Adds an organization. Returns `MetadataError::Taken` if the name is in use.
    fn add(&mut self, organization: &Organization) -> Result<()>;
    /// Returns an organization.
    fn get(&mut self, id: AccountId) -> Result<Option<Organization>>;
    /// Updates display name, description and base role. Returns `false` if the organization does not exist.
    fn update(&mut self, organization: &Organization) -> Result<bool>;
    /// Returns the kind of thing that an organization owns besides databases, as a plural noun for an error message,
    /// or `None`. Crates that depend on this one keep such things in the same store.
    fn owns_others(&mut self, id: AccountId) -> Result<Option<&'static str>>;
    /// Removes an organization and its memberships. `by` is the user who deleted it. The id stays taken, because
    /// deleted databases still refer to it.
    fn remove(&mut self, id: AccountId, at: Timestamp, by: AccountId) -> Result<()>;
    /// Lists the organizations of a user with the user's role, by lower-case name, after `after`.
    fn list(&mut self, user: AccountId, after: Option<&str>, limit: usize) -> Result<Vec<(Organization, MemberRole)>>;
}

/// The repository of memberships in organizations.
pub trait MemberRepository {
    /// Adds a membership or changes its role. Returns `true` if the membership is new.
    fn put(&mut self, organization: AccountId, user: AccountId, role: MemberRole, at: Timestamp) -> Result<bool>;
    /// Returns the membership of a user.
    fn get(&mut self, organization: AccountId, user: AccountId) -> Result<Option<Member>>;
    /// Returns the user's role in each of these organizations, and the base role of the organization. Organizations that
    /// the user is not a member of are left out.
    fn roles(
        &mut self,
        user: AccountId,
        organizations: &[AccountId],
    ) -> Result<BTreeMap<AccountId, (MemberRole, Role)>>;
    /// Removes a membership and returns it.
    fn remove(&mut self, organization: AccountId, user: AccountId) -> Result<Option<Member>>;
    /// Lists members by lower-case name, after `after`.
    fn list(&mut self, organization: AccountId, after: Option<&str>, limit: usize) -> Result<Vec<Member>>;
    /// Counts the owners of an organization.
    fn count_owners(&mut self, organization: AccountId) -> Result<u64>;
    /// Counts the organizations that a user owns.
    fn count_owned(&mut self, user: AccountId) -> Result<u64>;
}
