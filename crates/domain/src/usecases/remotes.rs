//! Remotes: what clients of the engine read to clone a database or to fetch from it.

use super::{Inner, revisions};
use crate::access::visibility::live;
use crate::access::{DatabaseAccess, Read};
use crate::entities::{Branch, Database, Tag};
use crate::errors::{PortError, RemoteError};
use crate::ports::{Chunk, PullFilter, Transaction};
use crate::values::{ChunkHash, CommitHash, DatabaseId, RefName};

/// Number of the commits left behind last that can still be read for a while.
const LEFT_BEHIND: usize = 2_000;

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

impl RemoteRefs {
    /// Returns a branch.
    pub fn branch(&self, name: &RefName) -> Option<&Branch> {
        // In byte order of their names.
        self.branches
            .binary_search_by(|branch| branch.name.as_str().cmp(name.as_str()))
            .ok()
            .map(|at| &self.branches[at])
    }

    /// Returns a tag.
    pub fn tag(&self, name: &RefName) -> Option<&Tag> {
        self.tags.binary_search_by(|tag| tag.name.as_str().cmp(name.as_str())).ok().map(|at| &self.tags[at])
    }
}

/// The refs of a database at one moment.
pub(super) struct PresentRefs {
    pub(super) refs: RemoteRefs,
    /// Whether nothing was written to the database yet.
    pub(super) is_new: bool,
}

impl PresentRefs {
    /// Returns the refs as clients see them.
    pub(super) fn shown(&self) -> Option<&RemoteRefs> {
        (!self.is_new).then_some(&self.refs)
    }
}

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
        let present = present_refs(self.0, access.database().id)?;
        match present.is_new {
            true => Err(RemoteError::Empty(access.database().locator.to_string())),
            false => Ok(present.refs),
        }
    }

    /// Returns the content of chunks in the order of `hashes`, `None` for each that the database does not have. Begins with the
    /// first hash, and stops before the chunks are longer than `at_most` bytes together, but not before the first one.
    ///
    /// A commit counts as absent if no branch, tag or pull request of the database reaches it, and none did within
    /// [`Limits::remote_grace_seconds`](super::Limits::remote_grace_seconds), so that a clone under way ends. Other chunks can only
    /// be found through a commit.
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
        let mut held = self.in_reach(id, &commits, &parents)?.into_iter();
        let mut is_shown = |chunk: &Chunk| chunk.parents.is_none() || held.next().unwrap_or_default();
        let shown = chunks.into_iter().map(|chunk| chunk.filter(&mut is_shown).map(|chunk| chunk.bytes));
        Ok(shown.collect())
    }
}

impl Remotes<'_> {
    /// Returns for each commit whether the database shows it, or showed it until a short while ago.
    fn in_reach(
        &self,
        id: DatabaseId,
        commits: &[CommitHash],
        parents: &[Vec<CommitHash>],
    ) -> Result<Vec<bool>, PortError> {
        let mut held = revisions::all_held(self.0, id, commits, parents)?;
        let grace = self.0.limits.remote_grace_seconds;
        if grace == 0 || !held.contains(&false) {
            return Ok(held);
        }
        let since = self.0.now().plus_seconds(-grace);
        let mut tx = self.0.ports.metadata.read()?;
        let mut recent = Vec::new();
        let left = tx.ref_log().list_left_behind(id, since, None, LEFT_BEHIND)?;
        recent.extend(left.into_iter().filter_map(|entry| entry.old));
        drop(tx);
        if recent.is_empty() {
            return Ok(held);
        }
        let was_reached = self.0.ports.engine.reached(id, &recent, commits)?;
        for (held, was_reached) in held.iter_mut().zip(was_reached) {
            *held |= was_reached;
        }
        Ok(held)
    }
}

/// Returns the branches and tags of a database in a transaction.
pub(super) fn read_refs(
    inner: &Inner,
    tx: &mut dyn Transaction,
    database: &Database,
) -> Result<RemoteRefs, RemoteError> {
    let (id, most) = (database.id, inner.limits.remote_refs);
    let branches = tx.branches().list(id, None, most + 1)?;
    let tags = tx.tags().list(id, None, most + 1)?;
    if branches.len() + tags.len() > most {
        return Err(RemoteError::TooManyRefs(most));
    }
    Ok(RemoteRefs { default_branch: database.default_branch.clone(), branches, tags })
}

/// Returns the branches and tags of a database.
pub(super) fn present_refs(inner: &Inner, id: DatabaseId) -> Result<PresentRefs, RemoteError> {
    let mut tx = inner.ports.metadata.read()?;
    let database = live(tx.as_mut(), id)?;
    let refs = read_refs(inner, tx.as_mut(), &database)?;
    let ([only], []) = (&*refs.branches, &*refs.tags) else { return Ok(PresentRefs { refs, is_new: false }) };
    let pulls = tx.pulls().list(id, &PullFilter::default(), None, 1)?;
    let head = only.head.clone();
    drop(tx);
    Ok(PresentRefs { is_new: pulls.is_empty() && is_first_commit(inner, id, &head)?, refs })
}

/// Returns `true` if a commit is like the one with which a database is created.
fn is_first_commit(inner: &Inner, database: DatabaseId, commit: &CommitHash) -> Result<bool, PortError> {
    let engine = &inner.ports.engine;
    let found = engine.commit(database, commit)?;
    Ok(found.is_some_and(|commit| commit.parents.is_empty()) && engine.tables(database, commit)?.is_empty())
}
