//! Users.

use branchyard_auth::PasswordHash;

use super::Inner;
use crate::entities::{Account, AccountKind, Email, User};
use crate::errors::{Fault, PeopleError};
use crate::ports::{Durability, MetadataError, Transaction};
use crate::values::{AccountId, Description, DisplayName, EmailAddress, OwnerName, WebAddress};

/// A person to be.
#[derive(Debug, Clone)]
pub struct NewUser {
    /// Name.
    pub name: OwnerName,
    /// Primary address.
    pub email: String,
    /// Shown beside the name.
    pub display_name: Option<String>,
    /// Password, hashed.
    pub password: Option<PasswordHash>,
    /// Whether they administer the server.
    pub is_admin: bool,
}

/// What a user says of themselves; all of it replaces what was said before, and empty texts say nothing.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Shown beside the name, and in commits.
    pub display_name: DisplayName,
    /// A few words.
    pub bio: Description,
    /// Where they are.
    pub location: DisplayName,
    /// Their site.
    pub website: Option<WebAddress>,
}

/// Users.
pub struct People<'a>(&'a Inner);

impl<'a> People<'a> {
    /// Addresses a user may have.
    pub const EMAILS: usize = 10;

    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Makes a user.
    ///
    /// # Errors
    /// [`PeopleError::NameTaken`], [`PeopleError::NameReserved`].
    pub fn create_user(&self, wanted: NewUser) -> Result<User, PeopleError> {
        refuse_reserved(self.0, &wanted.name)?;
        let user = new_user(self.0, wanted);
        let mut tx = self.0.ports.metadata.write()?;
        taken(tx.users().add(&user), &user.name)?;
        tx.commit(Durability::Synced)?;
        Ok(user)
    }

    /// Finds a user by name, whatever the case.
    ///
    /// # Errors
    /// [`PeopleError::NoSuchUser`].
    pub fn find_user(&self, name: &OwnerName) -> Result<User, PeopleError> {
        let missing = || PeopleError::NoSuchUser(name.to_string());
        let mut tx = self.0.ports.metadata.read()?;
        let account = tx.accounts().by_name(name)?.ok_or_else(missing)?;
        match account.kind {
            AccountKind::User => tx.users().get(account.id)?.ok_or_else(missing),
            AccountKind::Organization => Err(missing()),
        }
    }

    /// Changes what a user says of themselves.
    ///
    /// # Errors
    /// [`PeopleError::NoSuchUser`].
    pub fn edit_profile(&self, user: &User, profile: Profile) -> Result<User, PeopleError> {
        let mut tx = self.0.ports.metadata.write()?;
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

    /// Adds an address to a user's, not as the primary one. Nobody has shown yet that it is theirs.
    ///
    /// # Errors
    /// [`PeopleError::EmailKnown`]; [`PeopleError::TooManyEmails`] with [`People::EMAILS`].
    pub fn add_email(&self, user: &User, address: EmailAddress) -> Result<(), PeopleError> {
        self.edit_emails(user, |emails| {
            if emails.iter().any(|email| email.address.eq_ignore_ascii_case(address.as_str())) {
                return Err(PeopleError::EmailKnown);
            }
            if emails.len() >= Self::EMAILS {
                return Err(PeopleError::TooManyEmails(Self::EMAILS));
            }
            // Who has none at all has commits without an address until now.
            let is_primary = emails.is_empty();
            emails.push(Email { address: address.into_string(), is_primary, is_verified: false });
            Ok(())
        })
    }

    /// Removes an address that is not the primary one.
    ///
    /// # Errors
    /// [`PeopleError::NoSuchEmail`], [`PeopleError::PrimaryEmail`].
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

    /// Has commits from now on carry this one of a user's addresses.
    ///
    /// # Errors
    /// [`PeopleError::NoSuchEmail`].
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
        let mut tx = self.0.ports.metadata.write()?;
        let mut user = tx.users().get(user.id)?.ok_or_else(|| PeopleError::NoSuchUser(user.name.to_string()))?;
        edit(&mut user.emails)?;
        tx.users().set_emails(user.id, &user.emails)?;
        Ok(tx.commit(Durability::Synced)?)
    }

    /// Finds a user by a name as a path has it, which may be none at all.
    ///
    /// # Errors
    /// [`PeopleError::NoSuchUser`].
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

/// A person who is not stored yet.
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
        emails: vec![Email { address: wanted.email, is_primary: true, is_verified: true }],
        password_hash: wanted.password.map(|hash| hash.as_phc().to_owned()),
        is_admin: wanted.is_admin,
        created_at: now,
    }
}

/// The account of a name as a path has it; `None` also where no name has that form.
pub(super) fn account_of(tx: &mut dyn Transaction, text: &str) -> Result<Option<Account>, Fault> {
    match OwnerName::parse(text) {
        Ok(name) => Ok(tx.accounts().by_name(&name)?),
        Err(_) => Ok(None),
    }
}

/// Names that are kept free for routes and pages, or by the operator.
pub(super) fn refuse_reserved(inner: &Inner, name: &OwnerName) -> Result<(), PeopleError> {
    let by_operator = || inner.limits.reserved_names.iter().any(|kept| kept.eq_ignore_ascii_case(name.as_str()));
    if name.is_reserved() || by_operator() {
        return Err(PeopleError::NameReserved(name.to_string()));
    }
    Ok(())
}

/// Says which name an account could not have.
pub(super) fn taken(result: Result<(), MetadataError>, name: &OwnerName) -> Result<(), PeopleError> {
    match result {
        Err(MetadataError::Taken) => Err(PeopleError::NameTaken(name.to_string())),
        other => Ok(other?),
    }
}
