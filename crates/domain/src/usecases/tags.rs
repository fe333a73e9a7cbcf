//! Tags.

use super::databases::live;
use super::{IdempotencyRecord, Inner, idempotency, revisions};
use crate::access::{DatabaseAccess, Level, Write};
use crate::entities::Tag;
use crate::errors::RefError;
use crate::ports::{Durability, MetadataError, Transaction};
use crate::values::{DatabaseId, LongText, RefName, Revision};

/// A tag to be.
#[derive(Debug, Clone)]
pub struct NewTag {
    /// Its name.
    pub name: RefName,
    /// What it names.
    pub from: Revision,
    /// Makes it an annotated tag.
    pub message: Option<LongText>,
}

/// Tags.
pub struct Tags<'a>(&'a Inner);

impl<'a> Tags<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Creates a tag.
    ///
    /// # Errors
    /// [`RefError::TagExists`]; [`RefError::NoSuchBranch`] or [`RefError::NoSuchRef`] for what it names.
    pub fn create(
        &self,
        access: &DatabaseAccess<Write>,
        wanted: NewTag,
        once: Option<&IdempotencyRecord<'_, Tag>>,
    ) -> Result<Tag, RefError> {
        let database = access.database();
        let commit = revisions::revision(self.0, database, &wanted.from)?;
        let now = self.0.now();
        let tag = Tag { name: wanted.name, commit, message: wanted.message.map(LongText::into_string), tagged_at: now };
        let mut tx = self.0.ports.metadata.write()?;
        live(tx.as_mut(), database.id)?;
        match tx.tags().add(database.id, &tag) {
            Err(MetadataError::Taken) => return Err(RefError::TagExists(tag.name.to_string())),
            other => other?,
        }
        idempotency::keep(self.0, tx.as_mut(), once, &tag, now)?;
        tx.commit(Durability::Synced)?;
        Ok(tag)
    }

    /// A tag.
    ///
    /// # Errors
    /// [`RefError::NoSuchTag`].
    pub fn get<L: Level>(&self, access: &DatabaseAccess<L>, name: &str) -> Result<Tag, RefError> {
        find(self.0.ports.metadata.read()?.as_mut(), access.database().id, name)
    }

    /// Tags by name byte-wise, after `after`.
    ///
    /// # Errors
    /// [`RefError::Fault`].
    pub fn list<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Tag>, RefError> {
        Ok(self.0.ports.metadata.read()?.tags().list(access.database().id, after, limit)?)
    }

    /// Deletes a tag; gives it as it was.
    ///
    /// # Errors
    /// [`RefError::NoSuchTag`], [`RefError::ReleaseUsesTag`]; [`RefError::Changed`] when `expected` says that it is not as the
    /// caller saw it.
    pub fn delete(
        &self,
        access: &DatabaseAccess<Write>,
        name: &str,
        expected: Option<&dyn Fn(&Tag) -> bool>,
    ) -> Result<Tag, RefError> {
        let mut tx = self.0.ports.metadata.write()?;
        let database = live(tx.as_mut(), access.database().id)?;
        let tag = find(tx.as_mut(), database.id, name)?;
        if tx.releases().get(database.id, &tag.name)?.is_some() {
            return Err(RefError::ReleaseUsesTag(tag.name.to_string()));
        }
        if expected.is_some_and(|matches| !matches(&tag)) {
            return Err(RefError::Changed);
        }
        tx.tags().remove(database.id, &tag.name)?;
        tx.commit(Durability::Synced)?;
        Ok(tag)
    }
}

fn find(tx: &mut dyn Transaction, database: DatabaseId, name: &str) -> Result<Tag, RefError> {
    let missing = || RefError::NoSuchTag(name.to_owned());
    let parsed = RefName::parse(name).map_err(|_| missing())?;
    tx.tags().get(database, &parsed)?.ok_or_else(missing)
}
