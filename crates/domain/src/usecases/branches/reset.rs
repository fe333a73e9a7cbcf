//! Moving a branch back to an earlier commit of its history.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::{Branches, commit_time, find, writes_to};
use crate::access::visibility::live;
use crate::access::{DatabaseAccess, Write};
use crate::entities::{Branch, Commit, EventKind};
use crate::errors::{AccessError, PortError, RefError};
use crate::ports::{Durability, EngineError, WriteKeys};
use crate::usecases::collections::commit_left_behind;
use crate::usecases::engine_files::file_state;
use crate::usecases::outbox::emit;
use crate::usecases::pulls::branch_moved;
use crate::usecases::ref_log::{FormerCommit, ref_change};
use crate::usecases::upstream::{CommitCount, visit_only_in};
use crate::values::{CommitHash, DatabaseId, RefName};

/// Number of branches, or tags, read at a time.
const REFS: usize = 1_000;
/// Time that the search for commits that nothing else reaches may take.
const LOOKING: Duration = Duration::from_secs(1);

/// What a reset of a branch would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResetPreview {
    /// The branch as it is.
    pub branch: Branch,
    /// The commit that it would move to.
    pub to: CommitHash,
    /// The first of the commits that no branch or tag would reach any more, children before parents.
    pub lost: Vec<Commit>,
    /// The number of these commits. If there are more than [`CommitCount::MOST`] between the two commits, that of the first ones.
    pub count: CommitCount,
    /// Whether all branches and tags were looked at. Otherwise some of the commits may still be reached.
    pub is_exact: bool,
    /// Seconds for which administrators can restore the branch afterwards.
    pub restorable_seconds: i64,
}

impl Branches<'_> {
    /// Number of commits that [`ResetPreview::lost`] holds at most.
    pub const MOST_LOST: usize = 20;

    /// Returns what a reset of a branch to a commit would do.
    ///
    /// # Errors
    /// [`RefError::NoSuchBranch`]; [`RefError::NotBehind`] if the commit is not an earlier one of the branch.
    pub fn reset_preview(
        &self,
        access: &DatabaseAccess<Write>,
        name: &str,
        to: &CommitHash,
    ) -> Result<ResetPreview, RefError> {
        let id = access.database().id;
        let branch = self.get(access, name)?;
        self.refuse_others(id, &branch, to)?;
        let until = Instant::now() + LOOKING;
        let (mut left, mut lost) = (Vec::new(), Vec::new());
        let ends = ((id, branch.head.clone()), (id, to.clone()));
        let is_whole = visit_only_in(self.0.ports.engine.as_ref(), &ends.0, &ends.1, until, &mut |entry| {
            left.push(entry.commit.hash.clone());
            lost.push(entry.commit);
        })?;
        let is_exact = self.retain_unreached(id, &branch.name, &mut left, until)?;
        let unreached: HashSet<&CommitHash> = left.iter().collect();
        lost.retain(|commit| unreached.contains(&commit.hash));
        lost.truncate(Self::MOST_LOST);
        let count = CommitCount::up_to_limit(left.len());
        let count = CommitCount { is_more: count.is_more || !is_whole, ..count };
        let restorable_seconds = self.0.limits.history_seconds;
        Ok(ResetPreview { branch, to: to.clone(), lost, count, is_exact, restorable_seconds })
    }

    /// Removes the commits that another branch or a tag reaches. Returns `true` if all of these were looked at in time.
    fn retain_unreached(
        &self,
        database: DatabaseId,
        branch: &RefName,
        left: &mut Vec<CommitHash>,
        until: Instant,
    ) -> Result<bool, PortError> {
        let (metadata, engine) = (&self.0.ports.metadata, &self.0.ports.engine);
        for is_tag in [false, true] {
            let mut after: Option<RefName> = None;
            while !left.is_empty() {
                if Instant::now() >= until {
                    return Ok(false);
                }
                let (mut tx, last) = (metadata.read()?, after.as_ref().map(RefName::as_str));
                let page: Vec<(RefName, CommitHash)> = match is_tag {
                    false => {
                        let found = tx.branches().list(database, last, REFS)?;
                        found.into_iter().map(|branch| (branch.name, branch.head)).collect()
                    }
                    true => {
                        let found = tx.tags().list(database, last, REFS)?;
                        found.into_iter().map(|tag| (tag.name, tag.commit)).collect()
                    }
                };
                drop(tx);
                let is_last = page.len() < REFS;
                after = page.last().map(|(name, _)| name.clone());
                let others = page.into_iter().filter(|(name, _)| is_tag || name != branch);
                let heads: Vec<CommitHash> = others.map(|(_, head)| head).collect();
                let mut reached = engine.reached(database, &heads, left)?.into_iter();
                left.retain(|_| !reached.next().unwrap_or_default());
                if is_last {
                    break;
                }
            }
        }
        Ok(true)
    }

    /// Moves a branch back to an earlier commit of its history, if it is at `expected`. What it leaves behind is kept as the commits of
    /// a deleted branch are.
    ///
    /// # Errors
    /// [`RefError::NoSuchBranch`]; [`RefError::Changed`] if the branch is at another commit; [`RefError::NotBehind`] if the commit is not
    /// an earlier one of the branch; [`RefError::InUse`] if an unsettled operation moves the branch.
    pub fn reset(
        &self,
        access: &DatabaseAccess<Write>,
        name: &str,
        to: &CommitHash,
        expected: &CommitHash,
    ) -> Result<Branch, RefError> {
        let id = access.database().id;
        let branch = self.get(access, name)?;
        if branch.head != *expected {
            return Err(RefError::Changed);
        }
        self.refuse_others(id, &branch, to)?;
        let (updated_at, file) = (commit_time(self.0, id, to)?, file_state(self.0, id)?);
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(id))?;
        if live(tx.as_mut(), id)?.is_mirror {
            return Err(AccessError::Mirror.into());
        }
        let branch = find(tx.as_mut(), id, name)?;
        let pending = tx.operations().pending(id)?;
        if let Some(operation) = pending.into_iter().find(|one| writes_to(one, &branch.name, tx.as_mut())) {
            return Err(RefError::InUse(operation.id));
        }
        let left = ref_change(self.0, access.who().id, FormerCommit::LeftBehind);
        if !tx.branches().move_head(id, &branch.name, expected, to, updated_at, left)? {
            return Err(RefError::Changed);
        }
        commit_left_behind(self.0, tx.as_mut(), id, now)?;
        let due = tx.pulls().record_source_move(id, &branch.name, to, now)?;
        tx.databases().record_write(id, now, file)?;
        let moved = EventKind::Push { branch: branch.name.clone(), head: to.clone(), previous: expected.clone() };
        emit(self.0, tx.as_mut(), id, access.who().named(), now, moved)?;
        tx.commit(Durability::Synced)?;
        self.0.outbox.one();
        if due > 0 {
            self.0.fetch_wake.one();
        }
        branch_moved(self.0, id, &branch.name);
        Ok(Branch { head: to.clone(), updated_at, ..branch })
    }

    /// Refuses a commit that is not an earlier one of a branch.
    fn refuse_others(&self, database: DatabaseId, branch: &Branch, to: &CommitHash) -> Result<(), RefError> {
        let is_earlier = *to != branch.head
            && match self.0.ports.engine.is_ancestor(database, to, &branch.head) {
                Err(EngineError::NoSuchCommit(_)) => false,
                other => other.map_err(PortError::from)?,
            };
        match is_earlier {
            true => Ok(()),
            false => Err(RefError::NotBehind { commit: to.clone(), branch: branch.name.to_string() }),
        }
    }
}
