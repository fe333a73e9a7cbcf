//! Applications: the clients of OAuth that users register.

use super::Inner;
use crate::entities::{Application, RegisteredApplication, User};
use crate::errors::{ApplicationError, PortError};
use crate::ports::{Durability, Transaction, WriteKeys};
use crate::values::{ApplicationId, ApplicationName, Invalid, RedirectUri};

/// Use cases of applications.
pub struct Applications<'a>(&'a Inner);

impl<'a> Applications<'a> {
    /// Maximum number of applications per user.
    pub const PER_USER: u64 = 20;

    /// Maximum number of redirect URIs of an application.
    pub const MAX_REDIRECT_URIS: usize = 10;

    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Registers an application of a user.
    ///
    /// # Errors
    /// [`ApplicationError::Name`], [`ApplicationError::RedirectUri`], [`ApplicationError::RedirectUriCount`];
    /// [`ApplicationError::TooMany`] with the limit; [`ApplicationError::NoSuchOwner`].
    pub fn register(
        &self,
        owner: &User,
        name: &str,
        redirect_uris: &[String],
    ) -> Result<Application, ApplicationError> {
        let name = ApplicationName::parse(name).map_err(ApplicationError::Name)?;
        if name.as_str().contains(is_invisible) {
            return Err(ApplicationError::Name(Invalid::new("the name must not contain invisible characters")));
        }
        if name.as_str().trim().eq_ignore_ascii_case(Application::DH_NAME) {
            return Err(ApplicationError::Name(Invalid::new(
                "an application that is built into this server has this name",
            )));
        }
        if redirect_uris.is_empty() || redirect_uris.len() > Self::MAX_REDIRECT_URIS {
            return Err(ApplicationError::RedirectUriCount(Self::MAX_REDIRECT_URIS));
        }
        let parse = |uri: &String| RedirectUri::parse(uri).map_err(ApplicationError::RedirectUri);
        let now = self.0.now();
        let id = self.0.ports.ids.uuid(now).hyphenated().to_string();
        let application = Application {
            id: ApplicationId::parse(&id).map_err(|_| PortError::Unsettled("a UUID is no client id"))?,
            owner: Some(owner.id),
            name: name.into_string(),
            redirect_uris: redirect_uris.iter().map(parse).collect::<Result<_, _>>()?,
            created_at: now,
        };
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(owner.id))?;
        // The account may have been deleted since the request began.
        if tx.accounts().by_name(&owner.name)?.is_none_or(|account| account.id != owner.id) {
            return Err(ApplicationError::NoSuchOwner);
        }
        if tx.applications().count(owner.id)? >= Self::PER_USER {
            return Err(ApplicationError::TooMany(Self::PER_USER));
        }
        tx.applications().add(&application)?;
        tx.commit(Durability::Synced)?;
        Ok(application)
    }

    /// Returns up to `limit` applications of a user, newest first, starting after `after`.
    ///
    /// # Errors
    /// [`ApplicationError::Port`].
    pub fn list(
        &self,
        owner: &User,
        after: Option<&ApplicationId>,
        limit: usize,
    ) -> Result<Vec<RegisteredApplication>, ApplicationError> {
        Ok(self.0.ports.metadata.read()?.applications().list(Some(owner.id), after, limit)?)
    }

    /// Returns an application, which may be the built-in one, unless nothing may be granted to it.
    ///
    /// # Errors
    /// [`ApplicationError::NoSuchApplication`], also if its owner is suspended.
    pub fn find(&self, id: &ApplicationId) -> Result<RegisteredApplication, ApplicationError> {
        let mut tx = self.0.ports.metadata.look()?;
        usable(tx.as_mut(), id)?.ok_or(ApplicationError::NoSuchApplication)
    }

    /// Deletes an application of a user. All that users granted to it ends.
    ///
    /// # Errors
    /// [`ApplicationError::NoSuchApplication`], also if the application belongs to another user.
    pub fn remove(&self, owner: &User, id: &ApplicationId) -> Result<(), ApplicationError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(owner.id))?;
        if !tx.applications().remove(owner.id, id)? {
            return Err(ApplicationError::NoSuchApplication);
        }
        tx.commit(Durability::Synced)?;
        self.0.revocations.announce();
        Ok(())
    }
}

/// Returns `true` for characters that could make a name look like another one: controls, and those that hide or reorder others.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns an application, which may be the built-in one.
pub(super) fn registered(
    tx: &mut dyn Transaction,
    id: &ApplicationId,
) -> Result<Option<RegisteredApplication>, PortError> {
    if let Some(application) = Application::built_in(id) {
        return Ok(Some(RegisteredApplication { application, owner_name: None, is_suspended: false }));
    }
    Ok(tx.applications().get(id)?)
}

/// Returns an application unless its owner is suspended.
pub(super) fn usable(tx: &mut dyn Transaction, id: &ApplicationId) -> Result<Option<RegisteredApplication>, PortError> {
    Ok(registered(tx, id)?.filter(|found| !found.is_suspended))
}
