//! Branches.

use super::databases::{emit, live};
use super::pulls::branch_moved;
use super::{IdempotencyRecord, Inner, idempotency, revisions};
use crate::access::{DatabaseAccess, Level, Write};
use crate::entities::{Branch, EventKind, Operation, Work};
use crate::errors::{AccessError, RefError};
use crate::ports::{Durability, MetadataError, Transaction};
use crate::values::{DatabaseId, RefName, Revision, Timestamp};

/// A branch to be.
#[derive(Debug, Clone)]
pub struct NewBranch {
    /// Its name.
    pub name: RefName,
    /// Where it starts.
    pub from: Revision,
}

/// Branches.
pub struct Branches<'a>(&'a Inner);

impl<'a> Branches<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Creates a branch.
    ///
    /// # Errors
    /// [`RefError::BranchExists`]; [`RefError::NoSuchBranch`] or [`RefError::NoSuchRef`] for where it starts.
    pub fn create(
        &self,
        access: &DatabaseAccess<Write>,
        wanted: NewBranch,
        once: Option<&IdempotencyRecord<'_, Branch>>,
    ) -> Result<Branch, RefError> {
        let database = access.database();
        let head = revisions::revision(self.0, database, &wanted.from)?;
        let updated_at = commit_time(self.0, database.id, &head)?;
        let branch = Branch { name: wanted.name, head, updated_at };
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write()?;
        live(tx.as_mut(), database.id)?;
        match tx.branches().add(database.id, &branch) {
            Err(MetadataError::Taken) => return Err(RefError::BranchExists(branch.name.to_string())),
            other => other?,
        }
        let due = tx.pulls().record_source_move(database.id, &branch.name, &branch.head, now)?;
        emit(
            self.0,
            tx.as_mut(),
            database.id,
            access.who().named(),
            now,
            EventKind::BranchCreated { branch: branch.name.clone() },
        )?;
        idempotency::keep(self.0, tx.as_mut(), once, &branch, now)?;
        tx.commit(Durability::Synced)?;
        self.0.outbox.one();
        if due > 0 {
            self.0.fetch_wake.one();
        }
        branch_moved(self.0, database.id, &branch.name);
        Ok(branch)
    }

    /// A branch.
    ///
    /// # Errors
    /// [`RefError::NoSuchBranch`].
    pub fn get<L: Level>(&self, access: &DatabaseAccess<L>, name: &str) -> Result<Branch, RefError> {
        find(self.0.ports.metadata.read()?.as_mut(), access.database().id, name)
    }

    /// Branches by name byte-wise, after `after`.
    ///
    /// # Errors
    /// [`RefError::Fault`].
    pub fn list<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Branch>, RefError> {
        Ok(self.0.ports.metadata.read()?.branches().list(access.database().id, after, limit)?)
    }

    /// Deletes a branch; gives it as it was.
    ///
    /// # Errors
    /// [`RefError::NoSuchBranch`], [`RefError::DefaultBranch`], [`RefError::InUse`]; [`RefError::Changed`] when `expected`
    /// says that it is not as the caller saw it; what it is asked about is never the default branch.
    pub fn delete(
        &self,
        access: &DatabaseAccess<Write>,
        name: &str,
        expected: Option<&dyn Fn(&Branch) -> bool>,
    ) -> Result<Branch, RefError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write()?;
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
        if expected.is_some_and(|matches| !matches(&branch))
            || !tx.branches().remove(database.id, &branch.name, &branch.head)?
        {
            return Err(RefError::Changed);
        }
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

/// Whether an unsettled operation moves this branch.
fn writes_to(operation: &Operation, branch: &RefName, tx: &mut dyn Transaction) -> bool {
    match &operation.work {
        Work::SqlWrite { to_branch, .. } => to_branch == branch,
        Work::Merge { pull, .. } => {
            tx.pulls().get(operation.database_id, *pull).ok().flatten().is_some_and(|pull| pull.to_branch == *branch)
        }
        Work::Import(import) => import.pull_branch.as_ref().unwrap_or(&import.branch) == branch,
        Work::Fork { .. } => false,
    }
}

fn find(tx: &mut dyn Transaction, database: DatabaseId, name: &str) -> Result<Branch, RefError> {
    let missing = || RefError::NoSuchBranch(name.to_owned());
    let parsed = RefName::parse(name).map_err(|_| missing())?;
    tx.branches().get(database, &parsed)?.ok_or_else(missing)
}

/// The time of a commit, as branches show it.
pub(super) fn commit_time(
    inner: &Inner,
    database: DatabaseId,
    hash: &crate::values::CommitHash,
) -> Result<Timestamp, AccessError> {
    let commit = inner.ports.engine.commit(database, hash)?;
    Ok(commit.map_or_else(|| inner.now(), |commit| commit.author.at))
}
