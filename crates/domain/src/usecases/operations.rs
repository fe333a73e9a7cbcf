//! Operations: accepting, finding, canceling, and the loop that runs them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::databases::{has_room, live, may_create_for, role_of};
use super::settled::SettlementWatch;
use super::{IdempotencyRecord, Inner, idempotency, revisions, run};
use crate::access::{Caller, DatabaseAccess, Level, Participate, Write};
use crate::entities::{
    Database, FailureKind, Operation, OperationFailure, OperationKind, OperationStatus, Role, User, Work,
};
use crate::errors::{Fault, OperationError};
use crate::ports::{Durability, MetadataError, OperationBacklog, OperationFilter, Transaction};
use crate::values::{AccountId, CommitHash, DatabaseId, OperationId, RefName, Timestamp};

/// Seconds a worker may be silent before its operation is taken over.
pub(super) const LEASE_SECONDS: i64 = 30;

/// A write by SQL, checked.
#[derive(Debug, Clone)]
pub struct SqlWrite {
    /// Where `to_branch` starts when it does not exist; merged into it otherwise.
    pub from_branch: String,
    /// Where the statements run.
    pub to_branch: RefName,
    /// The statements; empty to merge `from_branch` and do nothing else.
    pub statements: String,
    /// Message of the commit of the statements.
    pub message: Option<String>,
}

/// How a run of an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// Its effect is there.
    Succeeded,
    /// It failed.
    Failed,
    /// It is to be run again, or somebody else settled it.
    Unsettled,
}

/// Workers that may hold what they could neither end nor hand back.
#[derive(Default)]
pub(crate) struct StrandedLeases(Mutex<HashSet<String>>);

impl StrandedLeases {
    fn all(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Operations.
pub struct Operations<'a>(&'a Inner);

impl<'a> Operations<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Accepts a write.
    ///
    /// # Errors
    /// [`OperationError::NoSuchBranch`], [`OperationError::QueueFull`].
    pub fn sql_write(
        &self,
        access: &DatabaseAccess<Write>,
        wanted: SqlWrite,
        once: Option<&IdempotencyRecord<'_, Operation>>,
    ) -> Result<Operation, OperationError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write()?;
        let database = live(tx.as_mut(), access.database().id)?;
        let missing = || OperationError::NoSuchBranch(wanted.from_branch.clone());
        let from = RefName::parse(&wanted.from_branch).map_err(|_| missing())?;
        let from = tx.branches().get(database.id, &from)?.ok_or_else(missing)?;
        let message = match wanted.message.filter(|text| !text.trim().is_empty()) {
            Some(text) => text,
            None if wanted.statements.is_empty() => format!("Merge {} into {}", from.name, wanted.to_branch),
            None => cut(format!("Run SQL query: {}", wanted.statements), 1_000),
        };
        let work = Work::SqlWrite {
            from_branch: from.name,
            to_branch: wanted.to_branch,
            statements: wanted.statements,
            message,
        };
        self.accept(tx, &database, access.who(), work, now, once)
    }

    /// Accepts a fork of the database to `owner`.
    ///
    /// # Errors
    /// [`OperationError::MayNotCreateFor`], [`OperationError::NameTaken`], [`OperationError::TooManyDatabases`],
    /// [`OperationError::QueueFull`].
    pub fn fork(
        &self,
        access: &DatabaseAccess<Participate>,
        owner: &str,
        once: Option<&IdempotencyRecord<'_, Operation>>,
    ) -> Result<Operation, OperationError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write()?;
        let database = live(tx.as_mut(), access.database().id)?;
        let owner = may_create_for(tx.as_mut(), access.who(), owner)?
            .ok_or_else(|| OperationError::MayNotCreateFor(owner.to_owned()))?;
        let name = &database.locator.name;
        if tx.databases().by_name(&owner.name, name)?.is_some() || tx.operations().is_forking_to(owner.id, name)? {
            return Err(OperationError::NameTaken(format!("{}/{name}", owner.name)));
        }
        if let Err(limit) = has_room(self.0, tx.as_mut(), owner.id)? {
            return Err(OperationError::TooManyDatabases(limit));
        }
        let fork_id = DatabaseId::from_uuid(self.0.ports.ids.uuid(now));
        let work = Work::Fork { owner_id: owner.id, owner: owner.name, fork_id };
        self.accept(tx, &database, access.who(), work, now, once)
    }

    fn accept(
        &self,
        mut tx: Box<dyn Transaction + '_>,
        database: &Database,
        user: &User,
        work: Work,
        now: Timestamp,
        once: Option<&IdempotencyRecord<'_, Operation>>,
    ) -> Result<Operation, OperationError> {
        let operation = enqueue(self.0, tx.as_mut(), database, user, work, now)?;
        idempotency::keep(self.0, tx.as_mut(), once, &operation, now)?;
        save_queued(self.0, tx)?;
        Ok(operation)
    }

    /// The operation as it may be shown now: without commits that its database does not show any more, such as those of a deleted branch. A deleted
    /// database shows none; its file may be gone.
    fn shown(&self, mut operation: Operation, is_deleted: bool) -> Result<Operation, Fault> {
        let OperationStatus::Succeeded(outcome) = &mut operation.status else { return Ok(operation) };
        let database = operation.database_id;
        let held = |hash: &CommitHash| Ok::<bool, Fault>(!is_deleted && revisions::held(self.0, database, hash)?);
        let holds_commit = outcome.commit.as_ref().map(held).transpose()?;
        if let Some(previous) = &outcome.previous {
            let holds_previous = match (&outcome.commit, holds_commit) {
                (Some(commit), Some(true)) => revisions::held_with(self.0, database, commit, previous)?,
                _ => held(previous)?,
            };
            if !holds_previous {
                outcome.previous = None;
            }
        }
        if holds_commit == Some(false) {
            operation.conceal();
        }
        Ok(operation)
    }

    /// Operations of a database, newest first, before `before`.
    ///
    /// # Errors
    /// [`OperationError::Fault`].
    pub fn list<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        filter: OperationFilter,
        before: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<Operation>, OperationError> {
        let found = self.0.ports.metadata.read()?.operations().list(access.database().id, filter, before, limit)?;
        found.into_iter().map(|operation| Ok(self.shown(operation, false)?)).collect()
    }

    /// Operations that a user asked for in any database, newest first, before `before`. `name` is the user the list is wanted
    /// of, in any letter case.
    ///
    /// # Errors
    /// [`OperationError::NotYours`] when that is somebody else.
    pub fn list_by(
        &self,
        user: &User,
        name: &str,
        filter: OperationFilter,
        before: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<Operation>, OperationError> {
        if !user.name.as_str().eq_ignore_ascii_case(name) {
            return Err(OperationError::NotYours);
        }
        let mut tx = self.0.ports.metadata.read()?;
        let found = tx.operations().list_by(user.id, filter, before, limit)?;
        let mut deleted: HashMap<DatabaseId, bool> = HashMap::new();
        for operation in &found {
            if let Entry::Vacant(place) = deleted.entry(operation.database_id) {
                place.insert(revisions::find_live(tx.as_mut(), operation.database_id)?.is_none());
            }
        }
        drop(tx);
        let is_deleted = |of: &Operation| deleted.get(&of.database_id).copied().unwrap_or(true);
        let shown = found.into_iter().map(|operation| {
            let is_deleted = is_deleted(&operation);
            Ok(self.shown(operation, is_deleted)?)
        });
        shown.collect()
    }

    /// An operation, for its creator and whoever may read its database.
    ///
    /// # Errors
    /// [`OperationError::NoSuchOperation`], also when it is not for this caller.
    pub fn get(&self, caller: &Caller, id: OperationId) -> Result<Operation, OperationError> {
        let mut tx = self.0.ports.metadata.read()?;
        let operation = readable(tx.as_mut(), caller.user().map(|user| user.id), id)?.0;
        let is_deleted = revisions::find_live(tx.as_mut(), operation.database_id)?.is_none();
        drop(tx);
        Ok(self.shown(operation, is_deleted)?)
    }

    /// Has `tell` called with an operation as it ended in this process, once, unless the watch was dropped before. Watched before it is looked at,
    /// no end is missed; what ends in another process is seen by looking only.
    pub fn watch(&self, id: OperationId, tell: impl FnOnce(&Operation) + Send + 'static) -> SettlementWatch {
        self.0.settled.watch(id, Box::new(tell))
    }

    /// An operation that this user may cancel, should it still be queued.
    ///
    /// # Errors
    /// [`OperationError::NoSuchOperation`], [`OperationError::Denied`].
    pub fn cancelable_by(&self, user: &User, id: OperationId) -> Result<Operation, OperationError> {
        let mut tx = self.0.ports.metadata.read()?;
        let (operation, role) = readable(tx.as_mut(), Some(user.id), id)?;
        if operation.created_by != user.id && role < Some(Role::Write) {
            return Err(OperationError::Denied);
        }
        Ok(operation)
    }

    /// Whether a caller sees what an operation made: the database of a fork may be hidden from them.
    ///
    /// # Errors
    /// [`OperationError::Fault`].
    pub fn sees_result(&self, caller: &Caller, operation: &Operation) -> Result<bool, OperationError> {
        let OperationStatus::Succeeded(outcome) = &operation.status else { return Ok(true) };
        let Some((made, _)) = &outcome.database else { return Ok(true) };
        let mut tx = self.0.ports.metadata.read()?;
        let viewer = caller.user().map(|user| user.id);
        Ok(super::databases::visible_locator(tx.as_mut(), viewer, *made)?.is_some())
    }

    /// How many rows an import has taken from its file so far; `None` unless this server is taking rows for it now. Scripts take none.
    #[must_use]
    pub fn rows_so_far(&self, operation: &Operation) -> Option<u64> {
        self.0.progress.rows(operation.id)
    }

    /// Cancels an operation that has not begun.
    ///
    /// # Errors
    /// [`OperationError::NoSuchOperation`], [`OperationError::Denied`], [`OperationError::NotQueued`].
    pub fn cancel(
        &self,
        user: &User,
        id: OperationId,
        once: Option<&IdempotencyRecord<'_, Operation>>,
    ) -> Result<Operation, OperationError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write()?;
        let (mut operation, role) = readable(tx.as_mut(), Some(user.id), id)?;
        if operation.created_by != user.id && role < Some(Role::Write) {
            return Err(OperationError::Denied);
        }
        if !operation.cancelable() {
            return Err(OperationError::NotQueued);
        }
        operation.status =
            OperationStatus::Failed(OperationFailure::new(FailureKind::Canceled, format!("canceled by {}", user.name)));
        operation.finished_at = Some(now);
        if !tx.operations().settle(&operation, None)? {
            return Err(OperationError::NotQueued);
        }
        idempotency::keep(self.0, tx.as_mut(), once, &operation, now)?;
        tx.commit(Durability::Synced)?;
        self.0.settled.tell(&operation);
        Ok(operation)
    }

    /// Ends the leases that a former process of this node left behind: those of holders `<node>/…`. Only for the start of the one process that
    /// is this node; leases of others run out by themselves.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn recover(&self, node: &str) -> Result<u64, Fault> {
        let mut tx = self.0.ports.metadata.write()?;
        let freed = tx.operations().recover(node)?;
        tx.commit(Durability::Synced)?;
        Ok(freed)
    }

    /// Removes what a crash left without an owner: files of databases and bytes of uploads that the metadata does not know.
    /// Gives how many. Only for the start of the one process that works on these stores, before anything else runs.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn sweep(&self) -> Result<u64, Fault> {
        let ports = &self.0.ports;
        let mut removed = 0;
        for id in ports.engine.list()? {
            let database = ports.metadata.read()?.databases().get(id)?;
            if database.is_none_or(|database| database.deleted_at.is_some()) {
                ports.engine.remove(id)?;
                removed += 1;
            }
        }
        for upload in ports.blobs.list()? {
            if ports.metadata.read()?.uploads().get(upload)?.is_none() {
                ports.blobs.remove(upload)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// What is not settled.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn backlog(&self) -> Result<OperationBacklog, Fault> {
        Ok(self.0.ports.metadata.read()?.operations().backlog()?)
    }

    /// Runs the next operation that may run and returns what became of it, if there was one. `holder` names the worker: `<node>/<worker>`; no
    /// two that run at the same time have the same name.
    ///
    /// # Errors
    /// [`Fault`] when what became of it could not be recorded. It is run again once this worker asks for the next one and can hand it back, else
    /// when its lease has ended.
    pub fn run_next(&self, holder: &str) -> Result<Option<(OperationKind, Ended)>, Fault> {
        self.run_next_noting(holder, &|| {})
    }

    /// The same. `on_long` is called when the operation has run for so long that it leaves its worker, which then is another one's; not on the
    /// thread that runs it.
    ///
    /// # Errors
    /// As [`Operations::run_next`].
    pub fn run_next_noting(
        &self,
        holder: &str,
        on_long: &(dyn Fn() + Sync),
    ) -> Result<Option<(OperationKind, Ended)>, Fault> {
        let turn = self.catch_up().and_then(|()| self.lease_and_run(holder, on_long));
        if turn.is_err() {
            self.0.behind.all().insert(holder.to_owned());
        }
        turn
    }

    /// Releases the leases that workers could not release before, as on a full disk; also those of workers that have ended since. Such an attempt
    /// does not count, because how it went could not be recorded. Locked until all is saved: a worker that is behind leases nothing meanwhile.
    fn catch_up(&self) -> Result<(), Fault> {
        let mut behind = self.0.behind.all();
        if behind.is_empty() {
            return Ok(());
        }
        let mut tx = self.0.ports.metadata.write()?;
        for holder in behind.iter() {
            tx.operations().release(holder, false)?;
        }
        tx.commit(Durability::Synced)?;
        behind.clear();
        Ok(())
    }

    fn lease_and_run(
        &self,
        holder: &str,
        on_long: &(dyn Fn() + Sync),
    ) -> Result<Option<(OperationKind, Ended)>, Fault> {
        let shares = &self.0.worker_shares;
        if !shares.has_free_worker() {
            return Ok(None);
        }
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write()?;
        let until = now.plus_seconds(LEASE_SECONDS);
        let Some((operation, place)) = shares.take(|turn| tx.operations().lease(holder, now, until, turn))? else {
            tx.discard();
            return Ok(None);
        };
        // Taken back, it is queued again, as if this process had ended, or was never accepted.
        tx.commit(Durability::Relaxed)?;
        if shares.has_missed_some() {
            self.0.wake.one();
        }
        let kind = operation.work.kind();
        // The worker that ran it looks for the next one of this database: no other has to be woken for it.
        let ended = run::run(self.0, operation, holder, &place, on_long);
        let was_long = place.is_long();
        drop(place);
        if was_long {
            // Its creator may have another one run, and its thread may end without looking for it.
            self.0.wake.one();
        }
        Ok(Some((kind, ended?)))
    }

    /// Prolongs the lease of an operation being run.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn prolong(&self, id: OperationId, holder: &str) -> Result<bool, Fault> {
        let mut tx = self.0.ports.metadata.write()?;
        let held = tx.operations().extend_lease(id, holder, self.0.now().plus_seconds(LEASE_SECONDS))?;
        tx.commit(Durability::Unsynced)?;
        Ok(held)
    }

    /// How often something was queued here so far. Taken before looking for work, it makes [`Operations::wait`] miss nothing.
    pub fn signals(&self) -> u64 {
        self.0.wake.count()
    }

    /// Waits until something was queued since `seen`, at most so long.
    pub fn wait(&self, seen: u64, at_most: Duration) {
        self.0.wake.wait(seen, at_most);
    }

    /// Removes what is past its retention: settled operations, what is told of as long as them, saved answers, abandoned uploads.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn tidy(&self) -> Result<(), Fault> {
        let now = self.0.now();
        let limits = &self.0.limits;
        let mut tx = self.0.ports.metadata.write()?;
        tx.operations().purge(now.plus_seconds(-limits.operation_retention_seconds))?;
        tx.activities().purge(now.plus_seconds(-limits.operation_retention_seconds))?;
        tx.idempotency().purge(now.plus_seconds(-limits.answer_retention_seconds))?;
        let abandoned = tx.uploads().abandoned(now, 100)?;
        tx.commit(Durability::Synced)?;
        for upload in abandoned {
            self.0.ports.blobs.remove(upload)?;
            let mut tx = self.0.ports.metadata.write()?;
            tx.uploads().remove(upload)?;
            tx.commit(Durability::Synced)?;
        }
        Ok(())
    }
}

/// Adds a queued operation.
pub(super) fn enqueue(
    inner: &Inner,
    tx: &mut dyn Transaction,
    database: &Database,
    user: &User,
    work: Work,
    now: Timestamp,
) -> Result<Operation, OperationError> {
    let id = fresh_id(inner, now);
    enqueue_as(inner, tx, id, database, user, work, now)
}

/// Saves a transaction that queued an operation. A worker begins with it while it is still on its way to the disk: what that saves is durable only when
/// this is.
pub(super) fn save_queued(inner: &Inner, tx: Box<dyn Transaction + '_>) -> Result<(), MetadataError> {
    tx.commit_notifying(&mut || inner.wake.one())
}

/// An id for an operation to be.
pub(super) fn fresh_id(inner: &Inner, now: Timestamp) -> OperationId {
    OperationId::from_uuid(inner.ports.ids.uuid(now))
}

/// Adds a queued operation whose id had to be known before.
pub(super) fn enqueue_as(
    inner: &Inner,
    tx: &mut dyn Transaction,
    id: OperationId,
    database: &Database,
    user: &User,
    work: Work,
    now: Timestamp,
) -> Result<Operation, OperationError> {
    let limit = inner.limits.queued_per_database;
    if tx.operations().count_queued(database.id)? >= limit {
        return Err(OperationError::QueueFull(limit));
    }
    let operation = Operation {
        id,
        database_id: database.id,
        locator: database.locator.clone(),
        work,
        status: OperationStatus::Queued,
        created_by: user.id,
        created_by_name: user.name.clone(),
        created_at: now,
        started_at: None,
        finished_at: None,
        attempts: 0,
    };
    tx.operations().add(&operation)?;
    Ok(operation)
}

fn readable(
    tx: &mut dyn Transaction,
    reader: Option<AccountId>,
    id: OperationId,
) -> Result<(Operation, Option<Role>), OperationError> {
    let Some(operation) = tx.operations().get(id)? else {
        deny_like_a_hidden_one(tx, reader)?;
        return Err(OperationError::NoSuchOperation);
    };
    let role = match &revisions::find_live(tx, operation.database_id)? {
        Some(database) => role_of(tx, reader, database)?,
        None => None,
    };
    if Some(operation.created_by) != reader && role.is_none() {
        return Err(OperationError::NoSuchOperation);
    }
    Ok((operation, role))
}

/// What is asked for an operation of a database that is hidden, asked in vain: otherwise the time would tell that there is one.
fn deny_like_a_hidden_one(tx: &mut dyn Transaction, reader: Option<AccountId>) -> Result<(), Fault> {
    tx.databases().get(DatabaseId::from_uuid(uuid::Uuid::nil()))?;
    super::databases::deny_like_a_hidden_one(tx, reader)
}

/// At most `bytes` bytes, cut on a character boundary.
fn cut(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        let end = (0..=bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}
