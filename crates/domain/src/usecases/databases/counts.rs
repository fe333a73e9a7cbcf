//! The numbers beside the tabs of a database.

use super::Databases;
use crate::access::{DatabaseAccess, Level};
use crate::errors::DatabaseError;
use crate::ports::DatabaseCounts;

impl Databases<'_> {
    /// Number up to which [`Databases::counts`] counts.
    pub const MOST_COUNTED: usize = 100;

    /// Counts the branches, tags, releases and open pull requests of a database, each up to [`Databases::MOST_COUNTED`].
    ///
    /// # Errors
    /// [`DatabaseError::Port`].
    pub fn counts<L: Level>(&self, access: &DatabaseAccess<L>) -> Result<DatabaseCounts, DatabaseError> {
        let (id, metadata) = (access.database().id, self.0.ports.metadata.as_ref());
        let found = self.0.remembered.counts.find(metadata, id, || -> Result<_, DatabaseError> {
            Ok(Some(metadata.read()?.refs().counts(id, Self::MOST_COUNTED)?))
        })?;
        Ok(found.unwrap_or_default())
    }
}
