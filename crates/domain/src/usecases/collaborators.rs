//! Collaborators: users with a role of their own on a database.

use super::Inner;
use super::people::account_of;
use crate::access::visibility::live;
use crate::access::{Admin, DatabaseAccess, Level, Participate};
use crate::entities::{Collaborator, Role, User};
use crate::errors::CollaboratorError;
use crate::ports::{Durability, WriteKeys};
use crate::values::AccountId;

/// Use cases of collaborators.
pub struct Collaborators<'a>(&'a Inner);

impl<'a> Collaborators<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns up to `limit` collaborators whose lower-case names follow `after`, in order of these names.
    ///
    /// # Errors
    /// [`CollaboratorError::Port`].
    pub fn list(
        &self,
        access: &DatabaseAccess<Admin>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Collaborator>, CollaboratorError> {
        Ok(self.0.ports.metadata.read()?.collaborators().list(access.database().id, after, limit)?)
    }

    /// Adds a collaborator or changes the role of an existing one. The flag is `true` if the collaborator was added.
    ///
    /// # Errors
    /// [`CollaboratorError::IsOwner`] if the user owns the database.
    pub fn put(
        &self,
        access: &DatabaseAccess<Admin>,
        user: &User,
        role: Role,
    ) -> Result<(Collaborator, bool), CollaboratorError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(access.database().id))?;
        let database = live(tx.as_mut(), access.database().id)?;
        if database.owner_id == user.id {
            return Err(CollaboratorError::IsOwner(user.name.to_string()));
        }
        let added = tx.collaborators().put(database.id, user.id, role, self.0.now())?;
        let missing = || CollaboratorError::NoSuchCollaborator(user.name.to_string());
        let collaborator = tx.collaborators().get(database.id, user.id)?.ok_or_else(missing)?;
        tx.commit(Durability::Synced)?;
        Ok((collaborator, added))
    }

    /// Removes a collaborator by name, in any letter case, and returns the removed record.
    ///
    /// # Errors
    /// [`CollaboratorError::NoSuchCollaborator`] if the user is not a collaborator.
    pub fn remove(&self, access: &DatabaseAccess<Admin>, name: &str) -> Result<Collaborator, CollaboratorError> {
        let account = account_of(self.0.ports.metadata.read()?.as_mut(), name)?;
        let account = account.ok_or_else(|| CollaboratorError::NoSuchCollaborator(name.to_owned()))?;
        self.end(access, account.id, account.name.as_str())
    }

    /// Removes the access holder from the collaborators and returns the removed record.
    ///
    /// # Errors
    /// [`CollaboratorError::NoSuchCollaborator`] if the access holder's role comes from elsewhere, such as an organization.
    pub fn leave(&self, access: &DatabaseAccess<Participate>) -> Result<Collaborator, CollaboratorError> {
        self.end(access, access.who().id, access.who().name.as_str())
    }

    fn end<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        user: AccountId,
        name: &str,
    ) -> Result<Collaborator, CollaboratorError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(access.database().id))?;
        let database = live(tx.as_mut(), access.database().id)?;
        let collaborator = tx.collaborators().remove(database.id, user)?;
        let collaborator = collaborator.ok_or_else(|| CollaboratorError::NoSuchCollaborator(name.to_owned()))?;
        tx.commit(Durability::Synced)?;
        Ok(collaborator)
    }
}
