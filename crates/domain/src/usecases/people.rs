//! Users: creating, finding and editing them.

use branchyard_auth::PasswordHash;

use super::Inner;
use crate::entities::{Account, AccountKind, Email, User};
use crate::errors::{PeopleError, PortError};
use crate::ports::{Durability, MetadataError, Transaction, WriteKey, WriteKeys};
use crate::values::{AccountId, Description, DisplayName, EmailAddress, OwnerName, Timestamp, WebAddress};

/// The properties of a new user.
#[derive(Debug, Clone)]
pub struct NewUser {
    /// Name of the user.
    pub name: OwnerName,
    /// Primary email address.
    pub email: String,
    /// Name shown beside the user name.
    pub display_name: Option<String>,
    /// Hashed password.
    pub password: Option<PasswordHash>,
    /// Whether the user administers the server.
    pub is_admin: bool,
}

/// The public profile of a user. All fields replace the earlier ones; an empty text removes the field.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Name shown beside the user name and in commits.
    pub display_name: DisplayName,
    /// Short text about the user.
    pub bio: Description,
    /// Where the user lives or works.
    pub location: DisplayName,
    /// The user's website.
    pub website: Option<WebAddress>,
}

/// Use cases of users.
pub struct People<'a>(pub(super) &'a Inner);

impl<'a> People<'a> {
    /// Maximum number of email addresses per user.
    pub const EMAILS: usize = 10;

    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Creates a user, for an administrator of the server, who may also use the name of a deleted account.
    ///
    /// # Errors
    /// [`PeopleError::NameTaken`], [`PeopleError::NameReserved`].
    pub fn create_user(&self, wanted: NewUser) -> Result<User, PeopleError> {
        refuse_reserved(self.0, &wanted.name)?;
        let user = new_user(self.0, wanted);
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server().and(WriteKey::Account(user.id)))?;
        taken(tx.users().add(&user), &user.name)?;
        tx.commit(Durability::Synced)?;
        Ok(user)
    }

    /// Returns a user by name, in any letter case.
    ///
    /// # Errors
    /// [`PeopleError::NoSuchUser`] if there is no account of that name or it is an organization.
    pub fn find_user(&self, name: &OwnerName) -> Result<User, PeopleError> {
        let missing = || PeopleError::NoSuchUser(name.to_string());
        let mut tx = self.0.ports.metadata.read()?;
        let account = tx.accounts().by_name(name)?.ok_or_else(missing)?;
        match account.kind {
            AccountKind::User => tx.users().get(account.id)?.ok_or_else(missing),
            AccountKind::Organization => Err(missing()),
        }
    }

    /// Replaces the public profile of a user.
    ///
    /// # Errors
    /// [`PeopleError::NoSuchUser`] if the user does not exist any more.
    pub fn edit_profile(&self, user: &User, profile: Profile) -> Result<User, PeopleError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(user.id))?;
        let mut user = tx.users().get(user.id)?.ok_or_else(|| PeopleError::NoSuchUser(user.name.to_string()))?;
        let said = |text: String| Some(text).filter(|text| !text.trim().is_empty());
        user.display_name = said(profile.display_name.into_string());
        user.bio = said(profile.bio.into_string());
        user.location = said(profile.location.into_string());
        user.website_url = profile.website.map(WebAddress::into_string);
        tx.users().update(&user)?;
        tx.commit(Durability::Synced)?;
        Ok(user)
    }

    /// Adds an unverified email address to a user. It becomes the primary one only if the user has no other.
    ///
    /// # Errors
    /// [`PeopleError::EmailKnown`] if the user has the address already; [`PeopleError::TooManyEmails`] with
    /// [`People::EMAILS`].
    pub fn add_email(&self, user: &User, address: EmailAddress) -> Result<(), PeopleError> {
        self.edit_emails(user, |emails| {
            if emails.iter().any(|email| email.address.eq_ignore_ascii_case(address.as_str())) {
                return Err(PeopleError::EmailKnown);
            }
            if emails.len() >= Self::EMAILS {
                return Err(PeopleError::TooManyEmails(Self::EMAILS));
            }
            // Until now, the commits of a user without an address had none.
            let is_primary = emails.is_empty();
            emails.push(Email { address: address.into_string(), is_primary, is_verified: false });
            Ok(())
        })
    }

    /// Removes an address other than the primary one.
    ///
    /// # Errors
    /// [`PeopleError::NoSuchEmail`]; [`PeopleError::PrimaryEmail`] for the primary address.
    pub fn remove_email(&self, user: &User, address: &str) -> Result<(), PeopleError> {
        self.edit_emails(user, |emails| {
            let place = place_of(emails, address)?;
            if emails[place].is_primary {
                return Err(PeopleError::PrimaryEmail);
            }
            emails.remove(place);
            Ok(())
        })
    }

    /// Makes one of a user's addresses the primary one, which new commits carry.
    ///
    /// # Errors
    /// [`PeopleError::NoSuchEmail`] if the user does not have the address.
    pub fn choose_email(&self, user: &User, address: &str) -> Result<(), PeopleError> {
        self.edit_emails(user, |emails| {
            let mut chosen = emails.remove(place_of(emails, address)?);
            chosen.is_primary = true;
            for email in emails.iter_mut() {
                email.is_primary = false;
            }
            emails.insert(0, chosen);
            Ok(())
        })
    }

    fn edit_emails(
        &self,
        user: &User,
        edit: impl FnOnce(&mut Vec<Email>) -> Result<(), PeopleError>,
    ) -> Result<(), PeopleError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(user.id))?;
        let mut user = tx.users().get(user.id)?.ok_or_else(|| PeopleError::NoSuchUser(user.name.to_string()))?;
        edit(&mut user.emails)?;
        tx.users().set_emails(user.id, &user.emails)?;
        Ok(tx.commit(Durability::Synced)?)
    }

    /// Returns a user by a name that may be malformed, such as a path segment.
    ///
    /// # Errors
    /// [`PeopleError::NoSuchUser`], also for a malformed name.
    pub fn user_named(&self, text: &str) -> Result<User, PeopleError> {
        match OwnerName::parse(text) {
            Ok(name) => self.find_user(&name),
            Err(_) => Err(PeopleError::NoSuchUser(text.to_owned())),
        }
    }
}

fn place_of(emails: &[Email], address: &str) -> Result<usize, PeopleError> {
    emails.iter().position(|email| email.address == address).ok_or(PeopleError::NoSuchEmail)
}

/// Returns a user that is not stored yet.
pub(super) fn new_user(inner: &Inner, wanted: NewUser) -> User {
    let now = inner.now();
    User {
        id: AccountId::from_uuid(inner.ports.ids.uuid(now)),
        name: wanted.name,
        display_name: wanted.display_name,
        bio: None,
        location: None,
        website_url: None,
        profile_pic_url: None,
        emails: vec![Email { address: wanted.email, is_primary: true, is_verified: false }],
        password_hash: wanted.password.map(|hash| hash.as_phc().to_owned()),
        is_admin: wanted.is_admin,
        suspended_at: None,
        created_at: now,
    }
}

/// Returns the account of a name, or `None` if there is none or the name is malformed.
pub(super) fn account_of(tx: &mut dyn Transaction, text: &str) -> Result<Option<Account>, PortError> {
    match OwnerName::parse(text) {
        Ok(name) => Ok(tx.accounts().by_name(&name)?),
        Err(_) => Ok(None),
    }
}

/// Fails for names that are reserved for routes and pages, or by the operator.
pub(super) fn refuse_reserved(inner: &Inner, name: &OwnerName) -> Result<(), PeopleError> {
    let by_operator = || inner.limits.reserved_names.iter().any(|kept| kept.eq_ignore_ascii_case(name.as_str()));
    if name.is_reserved() || by_operator() {
        return Err(PeopleError::NameReserved(name.to_string()));
    }
    Ok(())
}

/// Seconds for which the name of a deleted account stays taken, so that old links do not lead to another account.
pub(super) const NAME_KEPT_SECONDS: i64 = 90 * 86_400;

/// Fails for the name of an account that was deleted recently, unless `by` deleted that organization or administers the
/// server.
pub(super) fn refuse_retired(
    tx: &mut dyn Transaction,
    name: &OwnerName,
    by: Option<&User>,
    now: Timestamp,
) -> Result<(), PeopleError> {
    if by.is_some_and(|user| user.is_admin) {
        return Ok(());
    }
    match tx.accounts().retired(name)? {
        Some(retired)
            if retired.at.plus_seconds(NAME_KEPT_SECONDS) > now
                && (retired.by.is_none() || retired.by != by.map(|user| user.id)) =>
        {
            Err(PeopleError::NameRetired(name.to_string()))
        }
        _ => Ok(()),
    }
}

/// Converts the error of storing an account whose name is taken.
pub(super) fn taken(result: Result<(), MetadataError>, name: &OwnerName) -> Result<(), PeopleError> {
    match result {
        Err(MetadataError::Taken) => Err(PeopleError::NameTaken(name.to_string())),
        other => Ok(other?),
    }
}
