//! Branches: creating, listing and deleting them.

mod reset;
mod standing;

pub use reset::ResetPreview;
pub use standing::{BranchStanding, RecentPush};

use std::time::Duration;

use super::collections::commit_left_behind;
use super::outbox::emit;
use super::pulls::branch_moved;
use super::ref_log::{FormerCommit, ref_change, restorable_since};
use super::{IdempotencyRecord, Inner, idempotency, revisions};
use crate::access::visibility::live;
use crate::access::{DatabaseAccess, Level, Write};
use crate::entities::{Branch, Database, EventKind, Operation, Pull, PushTarget, RefKind, RefLogEntry, Work};
use crate::errors::{AccessError, RefError};
use crate::ports::{Durability, MetadataError, Transaction, WriteKeys};
use crate::values::{CommitHash, DatabaseId, RefLogId, RefName, Revision, Timestamp};

/// The properties of a new branch.
#[derive(Debug, Clone)]
pub struct NewBranch {
    /// Name of the branch.
    pub name: RefName,
    /// Revision the branch starts at.
    pub from: Revision,
}

/// A deleted branch that can be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedBranch {
    /// Id of its deletion.
    pub id: RefLogId,
    /// Name of the branch.
    pub name: RefName,
    /// The commit that it named last.
    pub head: CommitHash,
    /// When the branch was deleted.
    pub deleted_at: Timestamp,
    /// Until when it can be restored.
    pub until: Timestamp,
}

/// How far a branch and the default branch are apart, in commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divergence {
    /// Number of commits that only the branch has.
    pub ahead: usize,
    /// Number of commits that only the default branch has.
    pub behind: usize,
}

/// Number of deleted branches read at a time.
const DELETED: usize = 100;

/// Time that counting commits may take for a page.
const COUNTING: Duration = Duration::from_millis(100);

/// Use cases of branches.
pub struct Branches<'a>(&'a Inner);

impl<'a> Branches<'a> {
    /// Number of commits up to which [`Branches::divergences`] counts.
    pub const MOST_COUNTED: usize = 1_000;

    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Creates a branch that points at an existing commit.
    ///
    /// # Errors
    /// [`RefError::BranchExists`] if the name is taken; [`RefError::NoSuchBranch`] or [`RefError::NoSuchRef`] if the
    /// starting revision does not exist.
    pub fn create(
        &self,
        access: &DatabaseAccess<Write>,
        wanted: NewBranch,
        once: Option<&IdempotencyRecord<'_, Branch>>,
    ) -> Result<Branch, RefError> {
        revisions::in_one_generation(self.0, access.database(), |database| {
            self.create_in(database, access, wanted.clone(), once)
        })
    }

    fn create_in(
        &self,
        database: &Database,
        access: &DatabaseAccess<Write>,
        wanted: NewBranch,
        once: Option<&IdempotencyRecord<'_, Branch>>,
    ) -> Result<Option<Branch>, RefError> {
        let head = revisions::revision(self.0, database, &wanted.from)?;
        let updated_at = commit_time(self.0, database.id, &head)?;
        let branch = Branch { name: wanted.name, head, updated_at };
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(database.id))?;
        if live(tx.as_mut(), database.id)?.generation != database.generation {
            return Ok(None);
        }
        self.settle_new(tx, access, &branch, now, once)?;
        Ok(Some(branch))
    }

    /// Adds a branch with its event, and commits `tx`.
    fn settle_new(
        &self,
        mut tx: Box<dyn Transaction + '_>,
        access: &DatabaseAccess<Write>,
        branch: &Branch,
        now: Timestamp,
        once: Option<&IdempotencyRecord<'_, Branch>>,
    ) -> Result<(), RefError> {
        let database = access.database().id;
        let created = ref_change(self.0, access.who().id, FormerCommit::Reached);
        match tx.branches().add(database, branch, created) {
            Err(MetadataError::Taken) => return Err(RefError::BranchExists(branch.name.to_string())),
            other => other?,
        }
        let due = tx.pulls().record_source_move(database, &branch.name, &branch.head, now)?;
        let created = EventKind::BranchCreated { branch: branch.name.clone() };
        emit(self.0, tx.as_mut(), database, access.who().named(), now, created)?;
        idempotency::keep(self.0, tx.as_mut(), once, branch, now)?;
        tx.commit(Durability::Synced)?;
        self.0.outbox.one();
        if due > 0 {
            self.0.fetch_wake.one();
        }
        branch_moved(self.0, database, &branch.name);
        Ok(())
    }

    /// Returns up to `limit` deleted branches that can be restored, before `before`, the ones deleted last first. Branches whose names
    /// are in use again are left out.
    ///
    /// # Errors
    /// [`RefError::Port`].
    pub fn restorable(
        &self,
        access: &DatabaseAccess<Write>,
        before: Option<RefLogId>,
        limit: usize,
    ) -> Result<Vec<DeletedBranch>, RefError> {
        let since = restorable_since(self.0);
        let mut tx = self.0.ports.metadata.read()?;
        let deleted = tx.ref_log().list_deleted_branches(access.database().id, since, before, limit)?;
        Ok(deleted.into_iter().filter_map(|entry| self.deleted_branch(entry)).collect())
    }

    fn deleted_branch(&self, entry: RefLogEntry) -> Option<DeletedBranch> {
        let until = entry.at.plus_seconds(self.0.limits.history_seconds);
        let is_deletion = entry.kind == RefKind::Branch && entry.new.is_none();
        let head = entry.old.filter(|_| is_deletion && until > self.0.now())?;
        Some(DeletedBranch { id: entry.id, name: entry.name, head, deleted_at: entry.at, until })
    }

    /// Creates a deleted branch again, at the head that it had.
    ///
    /// # Errors
    /// [`RefError::NotKept`] if the branch is not kept, or not any longer; [`RefError::BranchExists`] if its name is in
    /// use again.
    pub fn restore(&self, access: &DatabaseAccess<Write>, id: RefLogId) -> Result<Branch, RefError> {
        let look = |tx: &mut dyn Transaction| -> Result<DeletedBranch, RefError> {
            let entry = tx.ref_log().left_behind(access.database().id, id)?;
            entry.and_then(|entry| self.deleted_branch(entry)).ok_or(RefError::NotKept)
        };
        let found = look(self.0.ports.metadata.read()?.as_mut())?;
        let updated_at = commit_time(self.0, access.database().id, &found.head)?;
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(access.database().id))?;
        live(tx.as_mut(), access.database().id)?;
        // A collection that does not keep the commit removes the record before it takes effect.
        let DeletedBranch { name, head, .. } = look(tx.as_mut())?;
        let branch = Branch { name, head, updated_at };
        self.settle_new(tx, access, &branch, now, None)?;
        Ok(branch)
    }

    /// Creates the deleted source branch of a pull request again, at the head that the pull request shows. `access` is for the source
    /// database.
    ///
    /// # Errors
    /// [`RefError::BranchExists`] if its name is in use again; [`RefError::NotKept`] if the pull request shows no head of this database, or
    /// if the database does not keep the commit.
    pub fn restore_source_of(&self, access: &DatabaseAccess<Write>, pull: &Pull) -> Result<Branch, RefError> {
        let heads = pull.shown().map_err(|_| RefError::NotKept)?;
        if access.database().id != pull.from_database_id {
            return Err(RefError::NotKept);
        }
        let (name, head) = (pull.from_branch.clone(), heads.from.clone());
        let wanted = NewBranch { name: name.clone(), from: Revision::Commit(head.clone().into()) };
        match self.create(access, wanted, None) {
            // In the database of the pull request, the commit is kept by the pull request. Another one keeps it for a while.
            Err(RefError::NoSuchRef { .. }) => {}
            other => return other,
        }
        let mut before = None;
        loop {
            let page = self.restorable(access, before, DELETED)?;
            if let Some(found) = page.iter().find(|deleted| deleted.name == name && deleted.head == head) {
                return self.restore(access, found.id);
            }
            match page.last() {
                Some(last) => before = Some(last.id),
                None => return Err(RefError::NotKept),
            }
        }
    }

    /// Returns a branch.
    ///
    /// # Errors
    /// [`RefError::NoSuchBranch`] if the branch does not exist.
    pub fn get<L: Level>(&self, access: &DatabaseAccess<L>, name: &str) -> Result<Branch, RefError> {
        find(self.0.ports.metadata.read()?.as_mut(), access.database().id, name)
    }

    /// Returns up to `limit` branches whose names follow `after`, in byte order of their names.
    ///
    /// # Errors
    /// [`RefError::Port`].
    pub fn list<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Branch>, RefError> {
        Ok(self.0.ports.metadata.read()?.branches().list(access.database().id, after, limit)?)
    }

    /// Returns for each of `heads` how many commits it is ahead of the default branch and behind it, each counted up to
    /// [`Branches::MOST_COUNTED`] + 1. Returns `None` for those that take longer than a page may wait; a later call gets further.
    ///
    /// # Errors
    /// [`RefError::Port`].
    pub fn divergences<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        heads: &[CommitHash],
    ) -> Result<Vec<Option<Divergence>>, RefError> {
        let database = access.database();
        let default = self.0.ports.metadata.read()?.branches().get(database.id, &database.default_branch)?;
        let Some(base) = default.map(|branch| branch.head) else { return Ok(vec![None; heads.len()]) };
        let cache = &self.0.remembered.diverged;
        let key = |head: &CommitHash| (database.id, base.clone(), head.clone());
        let mut found: Vec<_> = heads.iter().map(|head| cache.known_fixed(&key(head))).collect();
        let unknown: Vec<CommitHash> =
            heads.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(head, _)| head.clone()).collect();
        if !unknown.is_empty() {
            let engine = &self.0.ports.engine;
            let counted = engine.ahead_behind(database.id, &base, &unknown, Self::MOST_COUNTED, COUNTING)?;
            for (head, counted) in unknown.iter().zip(&counted) {
                if let Some(counted) = counted {
                    cache.note_fixed(key(head), *counted);
                }
            }
            let mut counted = counted.into_iter();
            for found in found.iter_mut().filter(|found| found.is_none()) {
                *found = counted.next().flatten();
            }
        }
        Ok(found.into_iter().map(|found| found.map(|(ahead, behind)| Divergence { ahead, behind })).collect())
    }

    /// Deletes a branch and returns its last state.
    ///
    /// [`RefError::NoSuchBranch`]; [`RefError::DefaultBranch`] for the default branch; [`RefError::InUse`] if an unsettled
    /// operation moves the branch; [`RefError::Changed`] if `expected` rejects the branch or its head moves concurrently.
    /// `expected` is never called with the default branch.
    pub fn delete(
        &self,
        access: &DatabaseAccess<Write>,
        name: &str,
        expected: Option<&dyn Fn(&Branch) -> bool>,
    ) -> Result<Branch, RefError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(access.database().id))?;
        let database = live(tx.as_mut(), access.database().id)?;
        let branch = find(tx.as_mut(), database.id, name)?;
        if let Some(operation) =
            tx.operations().pending(database.id)?.into_iter().find(|o| writes_to(o, &branch.name, tx.as_mut()))
        {
            return Err(RefError::InUse(operation.id));
        }
        if branch.name == database.default_branch {
            return Err(RefError::DefaultBranch(branch.name.to_string()));
        }
        let deleted = ref_change(self.0, access.who().id, FormerCommit::LeftBehind);
        if expected.is_some_and(|matches| !matches(&branch))
            || !tx.branches().remove(database.id, &branch.name, &branch.head, deleted)?
        {
            return Err(RefError::Changed);
        }
        commit_left_behind(self.0, tx.as_mut(), database.id, now)?;
        emit(
            self.0,
            tx.as_mut(),
            database.id,
            access.who().named(),
            now,
            EventKind::BranchDeleted { branch: branch.name.clone() },
        )?;
        tx.commit(Durability::Synced)?;
        self.0.outbox.one();
        Ok(branch)
    }
}

/// Returns `true` if an unsettled operation moves this branch.
pub(super) fn writes_to(operation: &Operation, branch: &RefName, tx: &mut dyn Transaction) -> bool {
    match &operation.work {
        Work::SqlWrite { to_branch, .. } => to_branch == branch,
        Work::Edit(edit) => edit.to_branch == *branch,
        Work::Merge { pull, .. } => {
            tx.pulls().get(operation.database_id, *pull).ok().flatten().is_some_and(|pull| pull.to_branch == *branch)
        }
        Work::Import(import) => import.pull_branch.as_ref().unwrap_or(&import.branch) == branch,
        Work::Push(push) => matches!(&push.target, PushTarget::Branch { name, .. } if name == branch),
        Work::MirrorSync => true,
        Work::Restore { to_branch, .. } => to_branch == branch,
        Work::Fork { .. } | Work::Purge => false,
    }
}

fn find(tx: &mut dyn Transaction, database: DatabaseId, name: &str) -> Result<Branch, RefError> {
    let missing = || RefError::NoSuchBranch(name.to_owned());
    let parsed = RefName::parse(name).map_err(|_| missing())?;
    tx.branches().get(database, &parsed)?.ok_or_else(missing)
}

/// Returns the time of a commit, as branches show it. Falls back to the present time if the engine does not have the commit.
pub(super) fn commit_time(
    inner: &Inner,
    database: DatabaseId,
    hash: &crate::values::CommitHash,
) -> Result<Timestamp, AccessError> {
    let commit = inner.ports.engine.commit(database, hash)?;
    Ok(commit.map_or_else(|| inner.now(), |commit| commit.author.at))
}
