//! Errors of users, organizations, signing in and tokens.

use branchyard_auth::PublicKeyFormatError;

use super::PortError;
use super::databases::AccessError;
use crate::values::Invalid;

/// Errors of users and of names, which users share with organizations.
#[derive(Debug, thiserror::Error)]
pub enum PeopleError {
    /// A user or organization has this name.
    #[error("the name '{0}' is taken")]
    NameTaken(String),
    /// The name would shadow a route or a page, or the operator has reserved it.
    #[error("the name '{0}' is reserved")]
    NameReserved(String),
    /// A deleted account had this name, which is kept for a while.
    #[error("the name '{0}' belonged to a deleted account and stays taken for 90 days; choose another one")]
    NameRetired(String),
    /// The user does not exist.
    #[error("no user '{0}'")]
    NoSuchUser(String),
    /// The last administrator of the server cannot be deleted.
    #[error("'{0}' is the only administrator of this server; make another user an administrator first")]
    LastAdministrator(String),
    /// The user owns databases or organizations. Holds their names.
    #[error("'{user}' owns {owned}; delete or hand them over first, or delete them too with --with-databases")]
    OwnsThings {
        /// Name of the user.
        user: String,
        /// The names of what the user owns, separated by commas.
        owned: String,
    },
    /// The user is the only owner of an organization with other members.
    #[error("'{user}' is the only owner of '{organization}', which has other members; make one of them an owner first")]
    OnlyOwner {
        /// Name of the user.
        user: String,
        /// Name of the organization.
        organization: String,
    },
    /// The user, or an organization that would be deleted too, owns things that crates which depend on this one store.
    #[error("'{owner}' owns {what}; disable and delete them first")]
    OwnsOthers {
        /// Name of the owner.
        owner: String,
        /// What the owner owns, in the plural.
        what: &'static str,
    },
    /// The user already has this email address.
    #[error("you already have this address")]
    EmailKnown,
    /// The user has reached the limit of email addresses.
    #[error("a user can have at most {0} addresses; remove one first")]
    TooManyEmails(usize),
    /// The user does not have this email address.
    #[error("this address is not one of yours")]
    NoSuchEmail,
    /// The address is the primary one, which commits carry.
    #[error("your commits carry this address; choose another commit email first")]
    PrimaryEmail,
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of signing in.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The user does not exist, has no password, or has another password. The error does not reveal which.
    #[error("wrong user name or password")]
    Wrong,
    /// The password is right, but an administrator of the server suspended the user.
    #[error("this account is suspended; ask your administrator")]
    Suspended,
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of sign-up and invitations.
#[derive(Debug, thiserror::Error)]
pub enum SignUpError {
    /// Sign-up is disabled.
    #[error("sign-up is closed on this server")]
    Closed,
    /// Sign-up requires an invitation.
    #[error("sign-up requires an invitation")]
    InvitationNeeded,
    /// The invitation is unknown, used, withdrawn or expired.
    #[error("the invitation is no longer valid; ask for a new one")]
    NoSuchInvitation,
    /// Only server administrators may invite.
    #[error("only server administrators can invite users")]
    NotYours,
    /// The limit of open invitations is reached.
    #[error("{0} invitations are already pending; revoke some first")]
    TooManyInvitations(usize),
    /// The name is not available.
    #[error(transparent)]
    People(#[from] PeopleError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of organizations and their members.
#[derive(Debug, thiserror::Error)]
pub enum OrganizationError {
    /// Authentication is required.
    #[error("this needs a credential")]
    SignInRequired,
    /// The user owns as many organizations as a user may own.
    #[error("you own {0} organizations already; delete one first, or make another member its only owner")]
    TooMany(u64),
    /// No organization has this name.
    #[error("no such organization")]
    NoSuchOrganization,
    /// The caller's role is too low. Holds the name of the required standing.
    #[error("only {0} of the organization can do this")]
    Denied(&'static str),
    /// The user is not a member.
    #[error("no member '{0}'")]
    NoSuchMember(String),
    /// The last owner cannot be removed or demoted.
    #[error("the organization would have no owner; make another member an owner first")]
    NoOwnerLeft,
    /// The organization owns databases, possibly including some that the caller does not expect.
    #[error("the organization owns {0} databases; delete them first")]
    OwnsDatabases(u64),
    /// The organization owns other things, which crates that depend on this one store.
    #[error("the organization owns {0}; disable and delete them first")]
    OwnsOthers(&'static str),
    /// The organization changed since the caller read it.
    #[error("the organization changed since it was read")]
    Changed,
    /// The name is not available.
    #[error(transparent)]
    People(#[from] PeopleError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of collaborators.
#[derive(Debug, thiserror::Error)]
pub enum CollaboratorError {
    /// The user is not a collaborator.
    #[error("no collaborator '{0}'")]
    NoSuchCollaborator(String),
    /// The user owns the database and needs no role on it.
    #[error("{0} owns the database and already has full access")]
    IsOwner(String),
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of API tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// A field is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The user has reached the limit of unexpired tokens.
    #[error("{0} unexpired tokens exist; delete one first")]
    TooMany(u64),
    /// The user has no such token.
    #[error("no such token")]
    NoSuchToken,
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of the keys of users.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A field is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The text is no public key.
    #[error(transparent)]
    NoKey(#[from] PublicKeyFormatError),
    /// The key is registered, for this user or another one.
    #[error("this key is registered already; a key belongs to one user")]
    Taken,
    /// The user has reached the limit of keys.
    #[error("{0} keys exist; remove one first")]
    TooMany(u64),
    /// The user has no such key.
    #[error("no such key")]
    NoSuchKey,
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of what administrators do to users, credentials and databases.
#[derive(Debug, thiserror::Error)]
pub enum AdministrationError {
    /// The caller does not administer the server.
    #[error("only an administrator of the server can do this")]
    NotAdministrator,
    /// The user does not exist.
    #[error("no user '{0}'")]
    NoSuchUser(String),
    /// The token does not exist.
    #[error("no token '{0}'")]
    NoSuchToken(String),
    /// The session does not exist.
    #[error("no session '{0}'")]
    NoSuchSession(String),
    /// The grant does not exist.
    #[error("no grant '{0}'")]
    NoSuchGrant(String),
    /// The application does not exist.
    #[error("no application '{0}'")]
    NoSuchApplication(String),
    /// The database does not exist.
    #[error("no database '{0}'")]
    NoSuchDatabase(String),
    /// The user is the only administrator of the server who is not suspended.
    #[error("'{0}' is the last administrator who is not suspended; make another user an administrator first")]
    LastAdministrator(String),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}
