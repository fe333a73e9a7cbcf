//! Remotes: what clients of the engine read to clone a database or to fetch from it.

use super::{Inner, revisions};
use crate::access::visibility::live;
use crate::access::{DatabaseAccess, Read};
use crate::entities::{Branch, Database, Tag};
use crate::errors::{PortError, RemoteError};
use crate::ports::{Chunk, PullFilter, Transaction};
use crate::values::{ChunkHash, DatabaseId, RefName};

/// The branches and tags of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteRefs {
    /// The default branch, which is one of the branches.
    pub default_branch: RefName,
    /// All branches, in byte order of their names.
    pub branches: Vec<Branch>,
    /// All tags, in byte order of their names.
    pub tags: Vec<Tag>,
}

/// Use cases of remotes.
pub struct Remotes<'a>(&'a Inner);

impl<'a> Remotes<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns all branches and tags, as they are at one moment.
    ///
    /// # Errors
    /// [`RemoteError::Empty`] as long as nothing was written to the database; [`RemoteError::TooManyRefs`] above
    /// [`Limits::remote_refs`](super::Limits::remote_refs).
    pub fn refs(&self, access: &DatabaseAccess<Read>) -> Result<RemoteRefs, RemoteError> {
        let (id, most) = (access.database().id, self.0.limits.remote_refs);
        let mut tx = self.0.ports.metadata.read()?;
        let database = live(tx.as_mut(), id)?;
        let branches = tx.branches().list(id, None, most + 1)?;
        let tags = tx.tags().list(id, None, most + 1)?;
        if branches.len() + tags.len() > most {
            return Err(RemoteError::TooManyRefs(most));
        }
        if let ([only], []) = (&*branches, &*tags)
            && !has_pulls(tx.as_mut(), id)?
        {
            drop(tx);
            self.refuse_empty(&database, only)?;
        }
        Ok(RemoteRefs { default_branch: database.default_branch, branches, tags })
    }

    /// Refuses a database whose only branch is at the commit with which it was created.
    fn refuse_empty(&self, database: &Database, branch: &Branch) -> Result<(), RemoteError> {
        let engine = &self.0.ports.engine;
        let commit = engine.commit(database.id, &branch.head)?;
        if commit.is_some_and(|commit| commit.parents.is_empty())
            && engine.tables(database.id, &branch.head)?.is_empty()
        {
            return Err(RemoteError::Empty(database.locator.to_string()));
        }
        Ok(())
    }

    /// Returns the content of chunks in the order of `hashes`, `None` for each that the database does not have. Begins with the
    /// first hash, and stops before the chunks are longer than `at_most` bytes together, but not before the first one.
    ///
    /// A commit counts as absent if no branch, tag or pull request of the database reaches it. Other chunks can only be found
    /// through a commit.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn chunks(
        &self,
        access: &DatabaseAccess<Read>,
        hashes: &[ChunkHash],
        at_most: usize,
    ) -> Result<Vec<Option<Vec<u8>>>, PortError> {
        let id = access.database().id;
        let chunks = self.0.ports.engine.chunks(id, hashes, at_most)?;
        let (mut commits, mut parents) = (Vec::new(), Vec::new());
        for (hash, chunk) in hashes.iter().zip(&chunks) {
            if let Some(of_commit) = chunk.as_ref().and_then(|chunk| chunk.parents.clone()) {
                commits.push(hash.as_commit());
                parents.push(of_commit);
            }
        }
        let mut held = revisions::all_held(self.0, id, &commits, &parents)?.into_iter();
        let mut is_shown = |chunk: &Chunk| chunk.parents.is_none() || held.next().unwrap_or_default();
        let shown = chunks.into_iter().map(|chunk| chunk.filter(&mut is_shown).map(|chunk| chunk.bytes));
        Ok(shown.collect())
    }
}

fn has_pulls(tx: &mut dyn Transaction, database: DatabaseId) -> Result<bool, PortError> {
    Ok(!tx.pulls().list(database, &PullFilter::default(), None, 1)?.is_empty())
}
