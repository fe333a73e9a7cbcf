//! Stars, by which users bookmark databases.

use super::Inner;
use crate::access::visibility::live;
use crate::access::{DatabaseAccess, Level, Participate};
use crate::entities::Star;
use crate::errors::DatabaseError;
use crate::ports::{Durability, WriteKeys};

/// Use cases of stars. The list of databases can be filtered by a user's stars.
pub struct Stars<'a>(&'a Inner);

impl<'a> Stars<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Stars a database. Starring it again changes nothing.
    ///
    /// # Errors
    /// [`DatabaseError::Access`] if the database was deleted meanwhile; [`DatabaseError::Port`].
    pub fn add(&self, access: &DatabaseAccess<Participate>) -> Result<(), DatabaseError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(access.database().id))?;
        let database = live(tx.as_mut(), access.database().id)?;
        tx.stars().add(database.id, access.who().id, self.0.now())?;
        Ok(tx.commit(Durability::Synced)?)
    }

    /// Removes the star of the access holder. Returns `true` if there was one.
    ///
    /// # Errors
    /// [`DatabaseError::Port`].
    pub fn remove(&self, access: &DatabaseAccess<Participate>) -> Result<bool, DatabaseError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(access.database().id))?;
        let removed = tx.stars().remove(access.database().id, access.who().id)?;
        tx.commit(Durability::Synced)?;
        Ok(removed)
    }

    /// Returns `true` if the caller has starred the database.
    ///
    /// # Errors
    /// [`DatabaseError::Port`].
    pub fn is_starred<L: Level>(&self, access: &DatabaseAccess<L>) -> Result<bool, DatabaseError> {
        let Some(user) = access.caller().user() else { return Ok(false) };
        Ok(self.0.ports.metadata.read()?.stars().get(access.database().id, user.id)?.is_some())
    }

    /// Returns up to `limit` stars of a database whose users' lower-case names follow `after`, in order of these names.
    ///
    /// # Errors
    /// [`DatabaseError::Port`].
    pub fn list<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Star>, DatabaseError> {
        Ok(self.0.ports.metadata.read()?.stars().list(access.database().id, after, limit)?)
    }
}
