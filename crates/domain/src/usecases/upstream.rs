//! The branch of the parent that a branch of a fork follows, and how far branches of two databases are apart.

use std::collections::HashSet;
use std::time::Instant;

use super::Inner;
use crate::access::visibility::{find_live, role_of};
use crate::entities::{Branch, Database, LogEntry, LogPosition, Role};
use crate::errors::PortError;
use crate::ports::{Engine, Transaction};
use crate::values::{AccountId, ChunkHash, CommitHash, DatabaseId, RefName};

/// Number of commits read at a time.
const PAGE: usize = 100;

/// A commit of a database.
pub(super) type CommitIn = (DatabaseId, CommitHash);

/// A number of commits that was counted up to a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommitCount {
    /// The number of commits that were counted.
    pub counted: usize,
    /// Whether there are more.
    pub is_more: bool,
}

impl CommitCount {
    /// Number of commits that are counted at most.
    pub const MOST: usize = 1_000;

    /// Returns a count that went on for one commit beyond the limit.
    pub(super) fn up_to_limit(counted: usize) -> Self {
        Self { counted: counted.min(Self::MOST), is_more: counted > Self::MOST }
    }

    /// Returns `true` if there is no commit.
    pub fn is_zero(self) -> bool {
        self == Self::default()
    }
}

/// The branch of the parent that a branch of a fork follows.
pub(super) struct Upstream {
    /// The parent.
    pub(super) parent: Database,
    /// The role of the viewer on the parent.
    pub(super) role: Role,
    /// The branch of the same name, or else the default branch of the parent.
    pub(super) branch: Branch,
}

impl Upstream {
    /// Returns what a branch of a database follows. `None` if the database is no fork, or its parent is deleted, quarantined or hidden
    /// from the viewer.
    pub(super) fn find(
        tx: &mut dyn Transaction,
        viewer: Option<AccountId>,
        fork: &Database,
        branch: &RefName,
    ) -> Result<Option<Self>, PortError> {
        let Some(parent) = fork.parent_id else { return Ok(None) };
        let Some(parent) = find_live(tx, parent)?.filter(|parent| parent.quarantined_at.is_none()) else {
            return Ok(None);
        };
        let Some(role) = role_of(tx, viewer, &parent)? else { return Ok(None) };
        let found = match tx.branches().get(parent.id, branch)? {
            Some(same) => Some(same),
            None => tx.branches().get(parent.id, &parent.default_branch)?,
        };
        Ok(found.map(|branch| Self { parent, role, branch }))
    }
}

/// Returns for each of `commits`, which may be those of another database, whether a commit of a database reaches it.
pub(super) fn reached_from(
    engine: &dyn Engine,
    (database, head): &CommitIn,
    commits: &[CommitHash],
) -> Result<Vec<bool>, PortError> {
    // A search for a commit that the file lacks would go through the whole history.
    let hashes: Vec<ChunkHash> = commits.iter().map(ChunkHash::from).collect();
    let held = engine.held_chunks(*database, &hashes)?;
    let wanted: Vec<CommitHash> =
        commits.iter().zip(&held).filter(|(_, held)| held.is_some()).map(|(commit, _)| commit.clone()).collect();
    let reached = match wanted.is_empty() {
        true => Vec::new(),
        false => engine.reached(*database, std::slice::from_ref(head), &wanted)?,
    };
    let mut reached = reached.into_iter();
    Ok(held.iter().map(|held| held.is_some() && reached.next().unwrap_or_default()).collect())
}

/// Passes the commits that `head` reaches and `base` does not to `each`, children before parents, until it passed more than
/// [`CommitCount::MOST`] or the time is over. Returns `true` if it passed all of them.
pub(super) fn visit_only_in(
    engine: &dyn Engine,
    head: &CommitIn,
    base: &CommitIn,
    until: Instant,
    each: &mut dyn FnMut(LogEntry),
) -> Result<bool, PortError> {
    // Commits that may have to be passed, each the head or a parent of a commit that was.
    let mut open = HashSet::from([head.1.clone()]);
    let (mut at, mut passed, mut is_begun) = (LogPosition::from(head.1.clone()), 0, false);
    loop {
        let looked: Vec<CommitHash> = open.into_iter().collect();
        let reached = reached_from(engine, base, &looked)?;
        open = looked.into_iter().zip(reached).filter(|(_, reached)| !reached).map(|(commit, _)| commit).collect();
        if open.is_empty() {
            return Ok(true);
        }
        if is_begun && (passed > CommitCount::MOST || Instant::now() >= until) {
            return Ok(false);
        }
        is_begun = true;
        let page = engine.log(head.0, &at, PAGE)?;
        let Some(last) = page.last() else { return Ok(true) };
        at = last.next.clone();
        let hashes: Vec<CommitHash> = page.iter().map(|entry| entry.commit.hash.clone()).collect();
        let reached = reached_from(engine, base, &hashes)?;
        for (entry, reached) in page.into_iter().zip(reached) {
            open.remove(&entry.commit.hash);
            if !reached {
                passed += 1;
                open.extend(entry.commit.parents.iter().cloned());
                each(entry);
            }
        }
    }
}

/// Counts the commits that `head` reaches and `base` does not, for about as long as `until`.
pub(super) fn count_only_in(
    inner: &Inner,
    head: &CommitIn,
    base: &CommitIn,
    until: Instant,
) -> Result<CommitCount, PortError> {
    if head.1 == base.1 {
        return Ok(CommitCount::default());
    }
    let (cache, key) = (&inner.remembered.only_in, (head.clone(), base.clone()));
    if let Some(known) = cache.known_fixed(&key) {
        return Ok(known);
    }
    let mut counted = 0;
    let is_whole = visit_only_in(inner.ports.engine.as_ref(), head, base, until, &mut |_| counted += 1)?;
    if is_whole || counted > CommitCount::MOST {
        let count = CommitCount::up_to_limit(counted);
        cache.note_fixed(key, count);
        return Ok(count);
    }
    // A later count gets further, because the engine remembers what it read.
    Ok(CommitCount { counted, is_more: true })
}
