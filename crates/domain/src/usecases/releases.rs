//! Releases.

use super::databases::live;
use super::{IdempotencyRecord, Inner, activities, idempotency, revisions};
use crate::access::{DatabaseAccess, Level, Write};
use crate::entities::{ActivityKind, Release, Tag};
use crate::errors::{RefError, ReleaseError};
use crate::ports::{Durability, MetadataError, Transaction};
use crate::values::{CommitHash, DatabaseId, LongText, RefName, ReleaseId, Revision, Timestamp, Title};

/// A release to be.
#[derive(Debug, Clone)]
pub struct NewRelease {
    /// The tag it stands on.
    pub tag: RefName,
    /// Its title.
    pub title: Title,
    /// The commit the tag names, or shall name.
    pub commit: CommitHash,
    /// Notes.
    pub description: Option<LongText>,
    /// Create the tag when it does not exist.
    pub create_tag: bool,
}

/// Changes to a release; absent fields stay.
#[derive(Debug, Clone, Default)]
pub struct EditRelease {
    /// New title.
    pub title: Option<Title>,
    /// New notes; empty clears.
    pub description: Option<LongText>,
}

/// Releases.
pub struct Releases<'a>(&'a Inner);

impl<'a> Releases<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Publishes a release, and its tag where asked to.
    ///
    /// # Errors
    /// [`ReleaseError::NoSuchCommit`], [`ReleaseError::NoSuchTag`], [`ReleaseError::Exists`], [`ReleaseError::TagElsewhere`].
    pub fn create(
        &self,
        access: &DatabaseAccess<Write>,
        wanted: NewRelease,
        once: Option<&IdempotencyRecord<'_, Release>>,
    ) -> Result<Release, ReleaseError> {
        let database = access.database();
        let commit = match revisions::revision(self.0, database, &Revision::Commit(wanted.commit.clone())) {
            Ok(commit) => commit,
            Err(RefError::Fault(fault)) => return Err(fault.into()),
            Err(_) => return Err(ReleaseError::NoSuchCommit(wanted.commit.to_string())),
        };
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write()?;
        live(tx.as_mut(), database.id)?;
        match tx.tags().get(database.id, &wanted.tag)? {
            Some(tag) if tag.commit != commit => return Err(ReleaseError::TagElsewhere(wanted.tag.to_string())),
            Some(_) => {}
            None if !wanted.create_tag => return Err(ReleaseError::NoSuchTag(wanted.tag.to_string())),
            None => {
                let tag = Tag { name: wanted.tag.clone(), commit: commit.clone(), message: None, tagged_at: now };
                tx.tags().add(database.id, &tag)?;
            }
        }
        let id = self.0.ports.ids.uuid(now);
        let release = Release {
            id: ReleaseId::from_uuid(id),
            tag: wanted.tag,
            title: wanted.title.into_string(),
            commit,
            description: wanted.description.map(LongText::into_string).filter(|d| !d.is_empty()),
            created_at: now,
            updated_at: now,
        };
        match tx.releases().add(database.id, &release) {
            Err(MetadataError::Taken) => return Err(ReleaseError::Exists(release.tag.to_string())),
            other => other?,
        }
        let kind = ActivityKind::Released { tag: release.tag.clone() };
        activities::note(tx.as_mut(), id, database.id, access.who().named(), now, kind)?;
        idempotency::keep(self.0, tx.as_mut(), once, &release, now)?;
        tx.commit(Durability::Synced)?;
        Ok(release)
    }

    /// The release of a tag.
    ///
    /// # Errors
    /// [`ReleaseError::NoSuchRelease`].
    pub fn get<L: Level>(&self, access: &DatabaseAccess<L>, tag: &str) -> Result<Release, ReleaseError> {
        find(self.0.ports.metadata.read()?.as_mut(), access.database().id, tag)
    }

    /// Releases, newest first, after that pair.
    ///
    /// # Errors
    /// [`ReleaseError::Fault`].
    pub fn list<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        after: Option<(Timestamp, &str)>,
        limit: usize,
    ) -> Result<Vec<Release>, ReleaseError> {
        Ok(self.0.ports.metadata.read()?.releases().list(access.database().id, after, limit)?)
    }

    /// Changes title or notes. What is as wanted already changes nothing.
    ///
    /// # Errors
    /// [`ReleaseError::NoSuchRelease`]; [`ReleaseError::Changed`] when `expected` says that it is not as the caller saw it.
    pub fn edit(
        &self,
        access: &DatabaseAccess<Write>,
        tag: &str,
        edit: EditRelease,
        expected: Option<&dyn Fn(&Release) -> bool>,
    ) -> Result<Release, ReleaseError> {
        let mut tx = self.0.ports.metadata.write()?;
        let database = live(tx.as_mut(), access.database().id)?;
        let seen = seen(tx.as_mut(), database.id, tag, expected)?;
        let mut release = seen.clone();
        if let Some(title) = edit.title {
            release.title = title.into_string();
        }
        if let Some(description) = edit.description {
            release.description = Some(description.into_string()).filter(|text| !text.is_empty());
        }
        if release == seen {
            return Ok(release);
        }
        release.updated_at = self.0.now();
        tx.releases().update(database.id, &release)?;
        tx.commit(Durability::Synced)?;
        Ok(release)
    }

    /// Deletes a release; the tag stays. Gives it as it was.
    ///
    /// # Errors
    /// As [`Releases::edit`].
    pub fn delete(
        &self,
        access: &DatabaseAccess<Write>,
        tag: &str,
        expected: Option<&dyn Fn(&Release) -> bool>,
    ) -> Result<Release, ReleaseError> {
        let mut tx = self.0.ports.metadata.write()?;
        let database = live(tx.as_mut(), access.database().id)?;
        let release = seen(tx.as_mut(), database.id, tag, expected)?;
        tx.releases().remove(database.id, &release.tag)?;
        tx.commit(Durability::Synced)?;
        Ok(release)
    }
}

fn find(tx: &mut dyn Transaction, database: DatabaseId, tag: &str) -> Result<Release, ReleaseError> {
    let missing = || ReleaseError::NoSuchRelease(tag.to_owned());
    let name = RefName::parse(tag).map_err(|_| missing())?;
    tx.releases().get(database, &name)?.ok_or_else(missing)
}

/// The release in the transaction that changes it, which must be as `expected`.
fn seen(
    tx: &mut dyn Transaction,
    database: DatabaseId,
    tag: &str,
    expected: Option<&dyn Fn(&Release) -> bool>,
) -> Result<Release, ReleaseError> {
    let release = find(tx, database, tag)?;
    match expected {
        Some(matches) if !matches(&release) => Err(ReleaseError::Changed),
        _ => Ok(release),
    }
}
