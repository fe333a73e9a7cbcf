//! Tags: creating, listing and deleting them.

use super::collections::commit_left_behind;
use super::ref_log::{FormerCommit, ref_change};
use super::{IdempotencyRecord, Inner, idempotency, revisions};
use crate::access::visibility::live;
use crate::access::{DatabaseAccess, Level, Write};
use crate::entities::{Database, Tag};
use crate::errors::RefError;
use crate::ports::{Durability, MetadataError, Transaction, WriteKeys};
use crate::values::{DatabaseId, LongText, RefName, Revision};

/// The properties of a new tag.
#[derive(Debug, Clone)]
pub struct NewTag {
    /// Name of the tag.
    pub name: RefName,
    /// The revision that the tag names.
    pub from: Revision,
    /// Message of an annotated tag.
    pub message: Option<LongText>,
}

/// Use cases of tags.
pub struct Tags<'a>(&'a Inner);

impl<'a> Tags<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Creates a tag.
    ///
    /// # Errors
    /// [`RefError::TagExists`]; [`RefError::NoSuchBranch`] or [`RefError::NoSuchRef`] if the revision does not exist.
    pub fn create(
        &self,
        access: &DatabaseAccess<Write>,
        wanted: NewTag,
        once: Option<&IdempotencyRecord<'_, Tag>>,
    ) -> Result<Tag, RefError> {
        revisions::in_one_generation(self.0, access.database(), |database| {
            self.create_in(database, access, wanted.clone(), once)
        })
    }

    fn create_in(
        &self,
        database: &Database,
        access: &DatabaseAccess<Write>,
        wanted: NewTag,
        once: Option<&IdempotencyRecord<'_, Tag>>,
    ) -> Result<Option<Tag>, RefError> {
        let commit = revisions::revision(self.0, database, &wanted.from)?;
        let now = self.0.now();
        let tag = Tag {
            name: wanted.name,
            commit,
            message: wanted.message.map(LongText::into_string),
            tagger: None,
            tagged_at: now,
        };
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(database.id))?;
        if live(tx.as_mut(), database.id)?.generation != database.generation {
            return Ok(None);
        }
        match tx.tags().add(database.id, &tag, ref_change(self.0, access.who().id, FormerCommit::Reached)) {
            Err(MetadataError::Taken) => return Err(RefError::TagExists(tag.name.to_string())),
            other => other?,
        }
        idempotency::keep(self.0, tx.as_mut(), once, &tag, now)?;
        tx.commit(Durability::Synced)?;
        Ok(Some(tag))
    }

    /// Returns a tag.
    ///
    /// # Errors
    /// [`RefError::NoSuchTag`] if the tag does not exist.
    pub fn get<L: Level>(&self, access: &DatabaseAccess<L>, name: &str) -> Result<Tag, RefError> {
        find(self.0.ports.metadata.read()?.as_mut(), access.database().id, name)
    }

    /// Returns up to `limit` tags whose names follow `after`, in byte order of their names.
    ///
    /// # Errors
    /// [`RefError::Port`].
    pub fn list<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Tag>, RefError> {
        Ok(self.0.ports.metadata.read()?.tags().list(access.database().id, after, limit)?)
    }

    /// Deletes a tag and returns its last state.
    ///
    /// # Errors
    /// [`RefError::NoSuchTag`]; [`RefError::ReleaseUsesTag`] if the tag has a release; [`RefError::Changed`] if `expected`
    /// rejects the current state.
    pub fn delete(
        &self,
        access: &DatabaseAccess<Write>,
        name: &str,
        expected: Option<&dyn Fn(&Tag) -> bool>,
    ) -> Result<Tag, RefError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(access.database().id))?;
        let database = live(tx.as_mut(), access.database().id)?;
        let tag = find(tx.as_mut(), database.id, name)?;
        if tx.releases().get(database.id, &tag.name)?.is_some() {
            return Err(RefError::ReleaseUsesTag(tag.name.to_string()));
        }
        if expected.is_some_and(|matches| !matches(&tag)) {
            return Err(RefError::Changed);
        }
        let deleted = ref_change(self.0, access.who().id, FormerCommit::LeftBehind);
        tx.tags().remove(database.id, &tag.name, deleted)?;
        commit_left_behind(self.0, tx.as_mut(), database.id, now)?;
        tx.commit(Durability::Synced)?;
        Ok(tag)
    }
}

fn find(tx: &mut dyn Transaction, database: DatabaseId, name: &str) -> Result<Tag, RefError> {
    let missing = || RefError::NoSuchTag(name.to_owned());
    let parsed = RefName::parse(name).map_err(|_| missing())?;
    tx.tags().get(database, &parsed)?.ok_or_else(missing)
}
