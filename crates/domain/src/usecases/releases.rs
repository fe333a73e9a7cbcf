//! Releases: publishing, listing and editing them.

use super::ref_log::{FormerCommit, ref_change};
use super::{IdempotencyRecord, Inner, activities, idempotency, revisions};
use crate::access::visibility::live;
use crate::access::{DatabaseAccess, Level, Write};
use crate::entities::{ActivityKind, Database, Release, Tag};
use crate::errors::{RefError, ReleaseError};
use crate::ports::{Durability, MetadataError, Transaction, WriteKeys};
use crate::values::{CommitPrefix, DatabaseId, LongText, RefName, ReleaseId, Revision, Timestamp, Title};

/// The properties of a new release.
#[derive(Debug, Clone)]
pub struct NewRelease {
    /// Name of the tag that the release is made from.
    pub tag: RefName,
    /// Title of the release.
    pub title: Title,
    /// First digits of the commit that the tag names, or will name if it is created.
    pub commit: CommitPrefix,
    /// Release notes.
    pub description: Option<LongText>,
    /// Whether to create the tag if it does not exist.
    pub create_tag: bool,
}

/// Changes to a release. Absent fields stay unchanged.
#[derive(Debug, Clone, Default)]
pub struct EditRelease {
    /// New title.
    pub title: Option<Title>,
    /// New release notes. An empty text removes them.
    pub description: Option<LongText>,
}

/// Use cases of releases.
pub struct Releases<'a>(&'a Inner);

impl<'a> Releases<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Publishes a release, and creates its tag if requested.
    ///
    /// # Errors
    /// [`ReleaseError::NoSuchCommit`]; [`ReleaseError::Commit`] if several commits begin with the digits; [`ReleaseError::NoSuchTag`] if the tag does not exist and is not to be created;
    /// [`ReleaseError::Exists`] if the tag has a release; [`ReleaseError::TagElsewhere`] if the tag names another commit.
    pub fn create(
        &self,
        access: &DatabaseAccess<Write>,
        wanted: NewRelease,
        once: Option<&IdempotencyRecord<'_, Release>>,
    ) -> Result<Release, ReleaseError> {
        revisions::in_one_generation(self.0, access.database(), |database| {
            self.create_in(database, access, wanted.clone(), once)
        })
    }

    fn create_in(
        &self,
        database: &Database,
        access: &DatabaseAccess<Write>,
        wanted: NewRelease,
        once: Option<&IdempotencyRecord<'_, Release>>,
    ) -> Result<Option<Release>, ReleaseError> {
        let commit = match revisions::revision(self.0, database, &Revision::Commit(wanted.commit.clone())) {
            Ok(commit) => commit,
            Err(RefError::Port(fault)) => return Err(fault.into()),
            Err(ambiguous @ RefError::AmbiguousCommit { .. }) => return Err(ReleaseError::Commit(ambiguous)),
            Err(_) => return Err(ReleaseError::NoSuchCommit(wanted.commit.to_string())),
        };
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(database.id))?;
        if live(tx.as_mut(), database.id)?.generation != database.generation {
            return Ok(None);
        }
        match tx.tags().get(database.id, &wanted.tag)? {
            Some(tag) if tag.commit != commit => return Err(ReleaseError::TagElsewhere(wanted.tag.to_string())),
            Some(_) => {}
            None if !wanted.create_tag => return Err(ReleaseError::NoSuchTag(wanted.tag.to_string())),
            None => {
                let tag = Tag {
                    name: wanted.tag.clone(),
                    commit: commit.clone(),
                    message: None,
                    tagger: None,
                    tagged_at: now,
                };
                tx.tags().add(database.id, &tag, ref_change(self.0, access.who().id, FormerCommit::Reached))?;
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
        Ok(Some(release))
    }

    /// Returns the release of a tag.
    ///
    /// # Errors
    /// [`ReleaseError::NoSuchRelease`] if the tag has no release.
    pub fn get<L: Level>(&self, access: &DatabaseAccess<L>, tag: &str) -> Result<Release, ReleaseError> {
        find(self.0.ports.metadata.read()?.as_mut(), access.database().id, tag)
    }

    /// Returns up to `limit` releases, newest first, starting after the creation time and tag in `after`.
    ///
    /// # Errors
    /// [`ReleaseError::Port`].
    pub fn list<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        after: Option<(Timestamp, &str)>,
        limit: usize,
    ) -> Result<Vec<Release>, ReleaseError> {
        Ok(self.0.ports.metadata.read()?.releases().list(access.database().id, after, limit)?)
    }

    /// Changes the title or the notes. An edit that changes nothing leaves `updated_at` as it is.
    ///
    /// # Errors
    /// [`ReleaseError::NoSuchRelease`]; [`ReleaseError::Changed`] if `expected` rejects the current state.
    pub fn edit(
        &self,
        access: &DatabaseAccess<Write>,
        tag: &str,
        edit: EditRelease,
        expected: Option<&dyn Fn(&Release) -> bool>,
    ) -> Result<Release, ReleaseError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(access.database().id))?;
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

    /// Deletes a release, keeps its tag, and returns the release's last state.
    ///
    /// # Errors
    /// As [`Releases::edit`].
    pub fn delete(
        &self,
        access: &DatabaseAccess<Write>,
        tag: &str,
        expected: Option<&dyn Fn(&Release) -> bool>,
    ) -> Result<Release, ReleaseError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(access.database().id))?;
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

/// Reads a release within the transaction that changes it, and checks it against `expected`.
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
