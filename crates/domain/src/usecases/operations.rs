//! Operations: queueing, listing, canceling, and the loop that runs them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::databases::{has_room, live_databases, remove_content};
use super::direct_writes::{DirectPlace, DirectWaiter, NewWrite};
use super::observers::Unobserved;
use super::people::NAME_KEPT_SECONDS;
use super::progress::OperationProgress;
use super::quotas::check_work;
use super::settled::SettlementWatch;
use super::write_previews::{self, PreviewReport};
use super::{IdempotencyRecord, Inner, OperationObserver, idempotency, ref_log, revisions, run};
use crate::access::ownership::may_create_for;
use crate::access::visibility::{self, find_live, find_unwithheld, live, role_of, visible_locator};
use crate::access::{Admin, Caller, DatabaseAccess, Level, Participate, Write};
use crate::call_context;
use crate::entities::{
    Database, DatabaseLocator, FailureKind, Operation, OperationFailure, OperationKind, OperationStatus, Outcome, Role,
    User, Work,
};
use crate::errors::{AccessError, HistoryError, OperationError, PortError};
use crate::ports::{
    Durability, LeaseTurn, MetadataError, OperationBacklog, OperationFilter, Transaction, WriteKey, WriteKeys,
};
use crate::values::{AccountId, CommitHash, DatabaseId, OperationId, RefName, Timestamp};

/// Seconds after which the lease of a silent worker expires.
pub(super) const LEASE_SECONDS: i64 = 30;

/// The settings of an SQL write.
#[derive(Debug, Clone)]
pub struct SqlWrite {
    /// Branch that `to_branch` starts at if it does not exist; otherwise merged into `to_branch` after the statements.
    pub from_branch: String,
    /// Branch that the statements run on.
    pub to_branch: RefName,
    /// The statements. If empty, the write only merges `from_branch`.
    pub statements: String,
    /// Message of the statements' commit. A default is used if it is absent or blank.
    pub message: Option<String>,
    /// The commit that the statements have to run on: the head of `to_branch`, or of `from_branch` if `to_branch` does not exist.
    pub expected_head: Option<CommitHash>,
    /// A commit that `to_branch`, which must not exist, is created at. `from_branch` plays no part then. The caller has to have resolved
    /// it with [`Sql::resolve`](super::Sql::resolve).
    pub start: Option<CommitHash>,
}

/// What a restore brings back, and where to.
#[derive(Debug, Clone)]
pub struct RestoreBranch {
    /// The branch whose former head is wanted. It may have been deleted since.
    pub branch: String,
    /// The time at which it had that head.
    pub at: Timestamp,
    /// The branch that is moved to that head. Created if it does not exist.
    pub to_branch: RefName,
}

/// What a caller may see of the result of an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultView {
    /// Whether the caller may see the database that the operation created, if it created one.
    pub sees_database: bool,
    /// The forks that keep commits which a purge removed and that the caller can see.
    pub kept_by_forks: Vec<DatabaseLocator>,
    /// Whether there are more such forks.
    pub kept_by_other_forks: bool,
}

/// The outcome of one run of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// The operation succeeded and took effect.
    Succeeded,
    /// The operation failed for good.
    Failed,
    /// The worker lost its lease: the operation runs again, or another worker settled it.
    Unsettled,
}

/// Holders whose leases may still need to be released, because they could be neither settled nor released.
#[derive(Default)]
pub(crate) struct StrandedLeases(Mutex<HashSet<String>>);

impl StrandedLeases {
    fn all(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock()
    }
}

/// Use cases of operations.
pub struct Operations<'a>(&'a Inner);

impl<'a> Operations<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    pub(super) fn inner(&self) -> &'a Inner {
        self.0
    }

    /// Queues an SQL write.
    ///
    /// # Errors
    /// [`OperationError::NoSuchBranch`] if `from_branch` does not exist; [`OperationError::OtherHead`] if the statements would not run on
    /// the expected commit; [`OperationError::BranchExists`] if the branch to create does; [`OperationError::QueueFull`];
    /// [`OperationError::Quota`].
    pub fn sql_write(
        &self,
        access: &DatabaseAccess<Write>,
        wanted: SqlWrite,
        once: Option<&IdempotencyRecord<'_, Operation>>,
    ) -> Result<Operation, OperationError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(access.database().id))?;
        let database = live(tx.as_mut(), access.database().id)?;
        let (from_branch, _) = base_of_write(tx.as_mut(), &database, &wanted)?;
        let message = message_of(wanted.message, &wanted.statements, &from_branch, &wanted.to_branch);
        let work = Work::SqlWrite {
            from_branch,
            to_branch: wanted.to_branch,
            statements: wanted.statements,
            message,
            expected_head: wanted.expected_head,
            start: wanted.start,
        };
        self.accept(tx, &database, access.who(), work, now, once)
    }

    /// Lets an SQL write join the line of writes that run while their callers wait, and are recorded once, with their end.
    /// Returns `None` if the write cannot run in that way, and has to be queued with [`Operations::sql_write`]: it merges or
    /// creates a branch, is long, the line is full, or a write to this database has just turned out to be long.
    ///
    /// `waiter` receives what happens; it then has to run turns, which block, or to queue the write.
    pub fn write_directly(
        &self,
        access: &DatabaseAccess<Write>,
        wanted: &SqlWrite,
        waiter: Arc<dyn DirectWaiter>,
    ) -> Option<DirectPlace> {
        let is_of_one_branch = wanted.from_branch == wanted.to_branch.as_str() && wanted.start.is_none();
        if wanted.statements.is_empty() || !is_of_one_branch {
            return None;
        }
        let branch = wanted.to_branch.clone();
        let message = message_of(wanted.message.clone(), &wanted.statements, &branch, &branch);
        let (user, statements) = (Arc::clone(access.who()), wanted.statements.clone());
        let (owner, expected_head) = (access.database().owner_id, wanted.expected_head.clone());
        let write = NewWrite { user, owner, branch, statements, message, expected_head };
        self.0.direct.join(self.0, access.database().id, write, waiter)
    }

    /// Runs the statements of an SQL write on the commit that they would run on now, returns what they change, and undoes them. Nothing
    /// is queued or kept, and the merge that may follow the statements is not part of it. Blocks for up to ten seconds.
    ///
    /// # Errors
    /// As [`Operations::sql_write`]; [`OperationError::Port`] with [`EngineError::Busy`](crate::ports::EngineError::Busy) if too many
    /// previews run, or other writes keep this one waiting.
    pub fn preview_write(
        &self,
        access: &DatabaseAccess<Write>,
        wanted: &SqlWrite,
    ) -> Result<PreviewReport, OperationError> {
        write_previews::preview(self.0, access, wanted)
    }

    /// Queues a fork of the database to `owner`.
    ///
    /// # Errors
    /// [`OperationError::MayNotCreateFor`] if the user cannot create databases for `owner`; [`OperationError::NameTaken`] if
    /// `owner` has a database of that name or is about to get one; [`OperationError::TooManyDatabases`];
    /// [`OperationError::QueueFull`]; [`OperationError::Quota`] if a quota of the new owner is used up.
    pub fn fork(
        &self,
        access: &DatabaseAccess<Participate>,
        owner: &str,
        once: Option<&IdempotencyRecord<'_, Operation>>,
    ) -> Result<Operation, OperationError> {
        let now = self.0.now();
        let missing = || OperationError::MayNotCreateFor(owner.to_owned());
        let mut tx = self.0.ports.metadata.read()?;
        let owner_id = may_create_for(tx.as_mut(), access.who(), owner)?.ok_or_else(missing)?.id;
        drop(tx);
        // The key of the new owner keeps two forks from taking the same name, or the last place.
        let keys = WriteKeys::account(owner_id).and(WriteKey::Database(access.database().id));
        let mut tx = self.0.ports.metadata.write(&keys)?;
        let database = live(tx.as_mut(), access.database().id)?;
        let owner = may_create_for(tx.as_mut(), access.who(), owner)?;
        let owner = owner.filter(|owner| owner.id == owner_id).ok_or_else(missing)?;
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

    /// Queues a purge: the removal of all commits that no branch, tag, pull request or release reaches.
    ///
    /// # Errors
    /// [`OperationError::QueueFull`].
    pub fn purge(
        &self,
        access: &DatabaseAccess<Admin>,
        once: Option<&IdempotencyRecord<'_, Operation>>,
    ) -> Result<Operation, OperationError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(access.database().id))?;
        let database = live(tx.as_mut(), access.database().id)?;
        self.accept(tx, &database, access.who(), Work::Purge, now, once)
    }

    /// Queues a restore of a branch to the commit that it, or another one, named at an earlier time.
    ///
    /// # Errors
    /// [`OperationError::History`] if that commit is not known, or not kept; [`AccessError::Mirror`];
    /// [`OperationError::QueueFull`]; [`OperationError::Quota`].
    pub fn restore(
        &self,
        access: &DatabaseAccess<Admin>,
        wanted: RestoreBranch,
        once: Option<&IdempotencyRecord<'_, Operation>>,
    ) -> Result<Operation, OperationError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(access.database().id))?;
        let database = live(tx.as_mut(), access.database().id)?;
        if database.is_mirror {
            return Err(AccessError::Mirror.into());
        }
        let branch = RefName::parse(&wanted.branch).map_err(|_| HistoryError::NoBranch(wanted.branch.clone()))?;
        ref_log::head_at(self.0, tx.as_mut(), &database, &branch, wanted.at)?;
        let work = Work::Restore { branch, at: wanted.at, to_branch: wanted.to_branch };
        self.accept(tx, &database, access.who(), work, now, once)
    }

    /// Returns since when branches of a database can be restored. `None` if they cannot.
    ///
    /// # Errors
    /// [`OperationError::Port`].
    pub fn restorable_since(&self, access: &DatabaseAccess<Admin>) -> Result<Option<Timestamp>, OperationError> {
        let mut tx = self.0.ports.metadata.read()?;
        Ok(ref_log::history_start(self.0, tx.as_mut(), access.database())?)
    }

    pub(super) fn accept(
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

    /// Returns the operation without commits that its database no longer reaches, such as those of a deleted branch. All
    /// commits of a deleted database are hidden, because its file may be gone, and so are those of a database that a
    /// quarantine withholds.
    fn shown(&self, mut operation: Operation, is_deleted: bool) -> Result<Operation, PortError> {
        let OperationStatus::Succeeded(outcome) = &mut operation.status else { return Ok(operation) };
        let database = operation.database_id;
        let held = |hash: &CommitHash| Ok::<bool, PortError>(!is_deleted && revisions::held(self.0, database, hash)?);
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

    /// Returns up to `limit` operations of a database before `before`, newest first.
    ///
    /// # Errors
    /// [`OperationError::Port`].
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

    /// Returns up to `limit` operations that a user created in any database, before `before`, newest first. `name` is the
    /// user whose operations are wanted, in any letter case.
    ///
    /// # Errors
    /// [`OperationError::NotYours`] if `name` is not `user`.
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
                place.insert(find_unwithheld(tx.as_mut(), Some(user.id), operation.database_id)?.is_none());
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

    /// Returns an operation to its creator or to a reader of its database.
    ///
    /// # Errors
    /// [`OperationError::NoSuchOperation`] if the operation does not exist or is hidden from the caller.
    pub fn get(&self, caller: &Caller, id: OperationId) -> Result<Operation, OperationError> {
        let mut tx = self.0.ports.metadata.read()?;
        let viewer = caller.user().map(|user| user.id);
        let operation = readable(tx.as_mut(), viewer, id)?.0;
        call_context::note_operation(id);
        call_context::note_database(&operation.locator);
        let is_deleted = find_unwithheld(tx.as_mut(), viewer, operation.database_id)?.is_none();
        drop(tx);
        Ok(self.shown(operation, is_deleted)?)
    }

    /// Calls `tell` once, when the operation settles in this process, unless the returned watch is dropped first. A caller
    /// that starts to watch before it reads the operation misses no settlement. Settlements in other processes are not
    /// reported; callers poll for them.
    pub fn watch(&self, id: OperationId, tell: impl FnOnce(&Operation) + Send + 'static) -> SettlementWatch {
        self.0.settled.watch(id, Box::new(tell))
    }

    /// Waits until an operation has settled, for at most this time, and returns it as [`Operations::get`] does. Blocks the
    /// thread. An operation that settles in another process is noticed at the end of the time.
    ///
    /// # Errors
    /// [`OperationError::NoSuchOperation`].
    pub fn wait_until_settled(
        &self,
        caller: &Caller,
        id: OperationId,
        at_most: Duration,
    ) -> Result<Operation, OperationError> {
        let (give, take) = mpsc::channel();
        let watch = self.watch(id, move |_| {
            // Fails if the time is over.
            let _ = give.send(());
        });
        let operation = self.get(caller, id)?;
        if operation.settled() {
            return Ok(operation);
        }
        // Ends with an error if the time is over.
        let _ = take.recv_timeout(at_most);
        drop(watch);
        self.get(caller, id)
    }

    /// Returns an operation that this user may cancel while it is queued.
    ///
    /// # Errors
    /// [`OperationError::NoSuchOperation`]; [`OperationError::Denied`] if the user neither created the operation nor has the
    /// write role.
    pub fn cancelable_by(&self, user: &User, id: OperationId) -> Result<Operation, OperationError> {
        let mut tx = self.0.ports.metadata.read()?;
        let (operation, role) = readable(tx.as_mut(), Some(user.id), id)?;
        if operation.created_by != user.id && role < Some(Role::Write) {
            return Err(OperationError::Denied);
        }
        Ok(operation)
    }

    /// Returns `true` if the caller may see the result of an operation. The database that a fork created may be hidden from
    /// the caller.
    ///
    /// # Errors
    /// [`OperationError::Port`].
    pub fn sees_result(&self, caller: &Caller, operation: &Operation) -> Result<bool, OperationError> {
        let OperationStatus::Succeeded(outcome) = &operation.status else { return Ok(true) };
        let Some((made, _)) = &outcome.database else { return Ok(true) };
        let mut tx = self.0.ports.metadata.read()?;
        let viewer = caller.user().map(|user| user.id);
        Ok(visible_locator(tx.as_mut(), viewer, *made)?.is_some())
    }

    /// Returns what the caller may see of the result of an operation.
    ///
    /// # Errors
    /// [`OperationError::Port`].
    pub fn result_view(&self, caller: &Caller, operation: &Operation) -> Result<ResultView, OperationError> {
        let mut view = ResultView { sees_database: self.sees_result(caller, operation)?, ..ResultView::default() };
        let OperationStatus::Succeeded(Outcome { purged: Some(purged), .. }) = &operation.status else {
            return Ok(view);
        };
        let mut tx = self.0.ports.metadata.read()?;
        let viewer = caller.user().map(|user| user.id);
        for fork in &purged.kept_by {
            match visible_locator(tx.as_mut(), viewer, *fork)? {
                Some(locator) => view.kept_by_forks.push(locator),
                // A deleted fork keeps nothing.
                None => view.kept_by_other_forks |= find_live(tx.as_mut(), *fork)?.is_some(),
            }
        }
        Ok(view)
    }

    /// Returns how far an operation is. Returns `None` unless it is an import that this process runs now.
    #[must_use]
    pub fn progress(&self, id: OperationId) -> Option<OperationProgress> {
        self.0.progress.of(id)
    }

    /// Cancels a queued operation.
    ///
    /// # Errors
    /// [`OperationError::NoSuchOperation`]; [`OperationError::Denied`] if the user neither created the operation nor has the
    /// write role; [`OperationError::NotQueued`] if the operation has begun or ended.
    pub fn cancel(
        &self,
        user: &User,
        id: OperationId,
        once: Option<&IdempotencyRecord<'_, Operation>>,
    ) -> Result<Operation, OperationError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&WriteKeys::none())?;
        let database = readable(tx.as_mut(), Some(user.id), id)?.0.database_id;
        tx.hold(&[WriteKey::Database(database)])?;
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

    /// Ends the leases that a former process of this node left behind, which are those of holders `<node>/…`, and returns
    /// their number. Call it only at the start of the node's process. Leases of other nodes expire by themselves.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn recover(&self, node: &str) -> Result<u64, PortError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
        let freed = tx.operations().recover(node)?;
        ref_log::note_start(self.0, tx.as_mut())?;
        tx.commit(Durability::Synced)?;
        Ok(freed)
    }

    /// Removes the garbage of a crash: files of unknown or deleted databases, and uploads without a session. Returns their
    /// number. Call it only at the start of the one process that uses these files, before anything else runs. Blobs may be shared
    /// with other processes ([`Blobs::list`](crate::ports::Blobs::list)).
    ///
    /// # Errors
    /// [`PortError`].
    pub fn sweep(&self) -> Result<u64, PortError> {
        let ports = &self.0.ports;
        let mut removed = 0;
        if ports.engine.owns_files() {
            let files = ports.engine.list()?;
            let live: HashSet<DatabaseId> = live_databases(ports.metadata.read()?.as_mut())?.into_iter().collect();
            for id in files {
                if !live.contains(&id) {
                    remove_content(self.0, id)?;
                    removed += 1;
                }
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

    /// Returns the counts of unsettled operations.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn backlog(&self) -> Result<OperationBacklog, PortError> {
        Ok(self.0.ports.metadata.read()?.operations().backlog()?)
    }

    /// Runs the next operation that may run and returns its outcome, or `None` if there was none or storage is low. `holder` names the worker
    /// as `<node>/<worker>`, and is unique among the workers that run at the same time.
    ///
    /// # Errors
    /// [`PortError`] if a port failed. If the operation is still unsettled, it runs again as soon as its lease is released,
    /// which later calls try again, or expires.
    pub fn run_next(&self, holder: &str) -> Result<Option<(OperationKind, Ended)>, PortError> {
        self.run_next_observed(holder, &Unobserved)
    }

    /// Runs the next operation as [`Operations::run_next`] does, and lets `observer` observe the run.
    ///
    /// # Errors
    /// As [`Operations::run_next`].
    pub fn run_next_observed(
        &self,
        holder: &str,
        observer: &dyn OperationObserver,
    ) -> Result<Option<(OperationKind, Ended)>, PortError> {
        let turn = self.catch_up().and_then(|()| self.lease_and_run(holder, observer));
        if turn.is_err() {
            self.0.behind.all().insert(holder.to_owned());
        }
        turn
    }

    /// Releases the leases that workers could not release before, for example because the disk was full, including those of
    /// workers that have ended since. Such an attempt does not count, because its outcome could not be recorded. The lock is
    /// held until the release is committed, so that no worker leases an operation before that.
    fn catch_up(&self) -> Result<(), PortError> {
        let mut behind = self.0.behind.all();
        if behind.is_empty() {
            return Ok(());
        }
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
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
        observer: &dyn OperationObserver,
    ) -> Result<Option<(OperationKind, Ended)>, PortError> {
        let shares = &self.0.worker_shares;
        if self.0.is_read_only.load(Ordering::Relaxed) || !shares.has_free_worker() {
            return Ok(None);
        }
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&WriteKeys::none())?;
        let until = now.plus_seconds(LEASE_SECONDS);
        // Of all operations, only a purge frees storage.
        let kind = self.0.free_space.is_low().then_some(OperationKind::Purge);
        let leased = shares.take(|turn| tx.operations().lease(holder, now, until, LeaseTurn { kind, ..turn }))?;
        let Some((operation, place)) = leased else {
            tx.discard();
            return Ok(None);
        };
        // If the commit is lost, the operation is queued again, as if this process had ended, or was never accepted.
        tx.commit(Durability::Relaxed)?;
        self.0.direct.wait_until_idle(operation.database_id);
        if shares.has_missed_some() {
            self.0.wake.one();
        }
        let kind = operation.work.kind();
        // This worker asks for the next operation of this database itself, so no other worker has to be woken.
        let ended = run::run(self.0, operation, holder, &place, observer);
        let was_long = place.is_long();
        drop(place);
        if was_long {
            // The creator may have another operation run now, and this thread may end without asking for one.
            self.0.wake.one();
        }
        Ok(Some((kind, ended?)))
    }

    /// Extends the lease of a running operation. Returns `true` if `holder` still owned the lease.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn prolong(&self, id: OperationId, holder: &str) -> Result<bool, PortError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::none())?;
        let held = tx.operations().extend_lease(id, holder, self.0.now().plus_seconds(LEASE_SECONDS))?;
        tx.commit(Durability::Unsynced)?;
        Ok(held)
    }

    /// Returns how often an operation was queued in this process. Pass a count that was read before looking for work to
    /// [`Operations::wait`], so that no signal is missed.
    pub fn signals(&self) -> u64 {
        self.0.wake.count()
    }

    /// Waits until an operation has been queued since `seen`, for at most `at_most`.
    pub fn wait(&self, seen: u64, at_most: Duration) {
        self.0.wake.wait(seen, at_most);
    }

    /// Wakes a caller of [`Operations::wait`] in each process, because operations that only this process could run may run in others.
    pub fn announce(&self) {
        self.0.wake.one();
    }

    /// Wakes the callers of [`Operations::wait`], because the server shuts down.
    pub fn wake(&self) {
        self.0.wake.all();
    }

    /// Removes records past their retention: settled operations, activities, saved answers, abandoned
    /// uploads and the chunks of pushes that were given up.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn tidy(&self) -> Result<(), PortError> {
        let now = self.0.now();
        let limits = &self.0.limits;
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
        tx.operations().purge(now.plus_seconds(-limits.operation_retention_seconds))?;
        tx.activities().purge(now.plus_seconds(-limits.operation_retention_seconds))?;
        tx.idempotency().purge(now.plus_seconds(-limits.answer_retention_seconds))?;
        tx.ref_log().purge(ref_log::kept_since(self.0))?;
        tx.accounts().forget_names(now.plus_seconds(-NAME_KEPT_SECONDS))?;
        let abandoned = tx.uploads().abandoned(now, 100)?;
        tx.commit(Durability::Synced)?;
        if let Some(pushed) = &self.0.ports.pushed_chunks {
            pushed.remove_unused(now.plus_seconds(-limits.pushed_chunks_seconds));
        }
        for upload in abandoned {
            self.0.ports.blobs.remove(upload)?;
            let mut tx = self.0.ports.metadata.write(&WriteKeys::none())?;
            tx.uploads().remove(upload)?;
            tx.commit(Durability::Synced)?;
        }
        Ok(())
    }
}

/// Adds a queued operation with a new id.
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

/// Commits a transaction that queued an operation, and wakes a worker. The worker may begin before the commit is durable.
/// Its own commits become durable only together with this one or after it.
pub(super) fn save_queued(inner: &Inner, tx: Box<dyn Transaction + '_>) -> Result<(), MetadataError> {
    tx.commit_notifying(&mut || inner.wake.one())
}

/// Returns an id for a new operation.
pub(super) fn fresh_id(inner: &Inner, now: Timestamp) -> OperationId {
    OperationId::from_uuid(inner.ports.ids.uuid(now))
}

/// Adds a queued operation under an id that the caller needed before.
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
    check_work::<OperationError>(inner, tx, database, &work, now)?;
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
        trace: call_context::trace(),
    };
    tx.operations().add(&operation)?;
    call_context::note_operation(id);
    call_context::note_database(&operation.locator);
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
    let role = match &find_live(tx, operation.database_id)? {
        Some(database) => role_of(tx, reader, database)?,
        None => None,
    };
    if Some(operation.created_by) != reader && role.is_none() {
        return Err(OperationError::NoSuchOperation);
    }
    Ok((operation, role))
}

/// Runs the lookups for an operation of a hidden database and discards the results, so that the response time does not
/// reveal whether the operation exists.
fn deny_like_a_hidden_one(tx: &mut dyn Transaction, reader: Option<AccountId>) -> Result<(), PortError> {
    tx.databases().get(DatabaseId::from_uuid(uuid::Uuid::nil()))?;
    visibility::deny_like_a_hidden_one(tx, reader)
}

/// Returns the branch that a write starts from, and the commit that its statements run on, which is the expected one if the write has one.
pub(super) fn base_of_write(
    tx: &mut dyn Transaction,
    database: &Database,
    wanted: &SqlWrite,
) -> Result<(RefName, CommitHash), OperationError> {
    let to = tx.branches().get(database.id, &wanted.to_branch)?;
    let (from, base) = match (&wanted.start, to) {
        (Some(_), Some(branch)) => return Err(OperationError::BranchExists(branch.name)),
        (Some(start), None) => (wanted.to_branch.clone(), start.clone()),
        (None, to) => {
            let missing = || OperationError::NoSuchBranch(wanted.from_branch.clone());
            let from = RefName::parse(&wanted.from_branch).map_err(|_| missing())?;
            let from = tx.branches().get(database.id, &from)?.ok_or_else(missing)?;
            (from.name, to.map_or(from.head, |branch| branch.head))
        }
    };
    match &wanted.expected_head {
        Some(expected) if *expected != base => Err(OperationError::OtherHead(base)),
        Some(_) | None => Ok((from, base)),
    }
}

/// Returns the message of a write's commit.
fn message_of(message: Option<String>, statements: &str, from: &RefName, to: &RefName) -> String {
    match message.filter(|text| !text.trim().is_empty()) {
        Some(text) => text,
        None if statements.is_empty() => format!("Merge {from} into {to}"),
        None => cut(format!("Run SQL query: {statements}"), 1_000),
    }
}

/// Truncates a text to at most `bytes` bytes, on a character boundary.
fn cut(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        let end = (0..=bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}
