//! Execution of leased operations.
//!
//! The effect of an operation is a ref move, which is in the transaction that settles the operation, together with its
//! status and events. A crash before that transaction leaves at most a commit without a ref, and the operation runs again
//! from the present head of the ref. After a crash that follows the transaction, the operation is settled.

mod edit;
mod fork;
mod import;
mod merge;
mod mirror_sync;
mod prefetch;
mod purge;
mod push;
mod restore;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use parking_lot::Mutex;

use super::collections::record_file;
use super::engine_files::file_state;
use super::operations::{Ended, LEASE_SECONDS};
use super::outbox::emit;
use super::pulls::branch_moved;
use super::quotas::check_run;
use super::ref_log::{FormerCommit, ref_change};
use super::worker_shares::WorkerPlace;
use super::{Inner, OperationAttempt, OperationObserver, Operations};
use crate::CallContext;
use crate::access::visibility::{find_live, unquarantined_role_of};
use crate::entities::{
    Branch, Database, EventKind, FailureKind, Operation, OperationFailure, OperationStatus, Outcome, Role, Side, User,
    Work,
};
use crate::errors::{PortError, PullError, QuotaError};
use crate::ports::{Durability, EngineError, FormatError, MetadataError, SizeChange, Transaction, WriteKeys};
use crate::values::{AccountId, CommitHash, RefName, Timestamp};

/// Maximum number of tries when refs move while the work is done.
const MOVED_RETRIES: u32 = 8;
/// Number of attempts after which a server fault becomes the operation's failure.
const ATTEMPTS: u32 = 5;
const INTERNAL: &str = "an internal error; the operator can find it by the operation's id";

/// Why a run did not settle its operation as succeeded.
pub(super) enum RunError {
    /// The operation fails for good.
    Failed(OperationFailure),
    /// A port failed. The operation is retried.
    Port(PortError),
    /// A ref moved during the work, which has to be repeated.
    Moved,
    /// The lease was lost: another worker holds or has settled the operation.
    Lost,
}

impl<E: Into<PortError>> From<E> for RunError {
    fn from(error: E) -> Self {
        Self::Port(error.into())
    }
}

impl From<QuotaError> for RunError {
    fn from(error: QuotaError) -> Self {
        failed(FailureKind::Unprocessable, error.to_string())
    }
}

/// Returns the former head of a branch that moves to a descendant.
fn reached(was: Option<&CommitHash>) -> Option<(&CommitHash, FormerCommit)> {
    was.map(|was| (was, FormerCommit::Reached))
}

fn failed(kind: FailureKind, detail: impl Into<String>) -> RunError {
    RunError::Failed(OperationFailure::new(kind, detail))
}

/// A leased operation, with what is needed to settle it.
struct LeasedRun<'a> {
    inner: &'a Inner,
    operation: Operation,
    holder: &'a str,
    place: &'a WorkerPlace<'a>,
    observer: &'a dyn OperationObserver,
    /// The owner of the database, once it is known.
    owner: OnceLock<AccountId>,
    /// Whether settling the operation requires fetches for pull requests.
    moved_pulls: AtomicBool,
    /// The branches that move when the operation is settled.
    moved_branches: Mutex<BTreeSet<RefName>>,
}

/// Runs a leased operation and settles it, in the trace that the operation belongs to.
pub(super) fn run(
    inner: &Inner,
    operation: Operation,
    holder: &str,
    place: &WorkerPlace<'_>,
    observer: &dyn OperationObserver,
) -> Result<Ended, PortError> {
    let (database, mut ended) = (operation.locator.clone(), None);
    let attempt = OperationAttempt {
        id: operation.id,
        kind: operation.work.kind(),
        database: &database,
        number: operation.attempts,
        trace: operation.trace,
    };
    let (moved_pulls, moved_branches) = (AtomicBool::new(false), Mutex::default());
    let mut run = Some(LeasedRun {
        inner,
        operation,
        holder,
        place,
        observer,
        owner: OnceLock::new(),
        moved_pulls,
        moved_branches,
    });
    observer.attempt(&attempt, &mut |trace| {
        if let Some(run) = run.take() {
            ended = Some(CallContext::new(trace).enter(|| settle(run)));
        }
    });
    // An observer that made no attempt leaves the operation to its next lease.
    ended.unwrap_or(Ok(Ended::Unsettled))
}

fn settle(mut run: LeasedRun<'_>) -> Result<Ended, PortError> {
    if run.operation.attempts > ATTEMPTS {
        // Each earlier attempt took the worker down with it.
        return run.settle_failed(OperationFailure::new(FailureKind::Internal, INTERNAL));
    }
    match run.with_heartbeat() {
        Ok(()) => Ok(Ended::Succeeded),
        Err(RunError::Lost) => Ok(Ended::Unsettled),
        Err(RunError::Failed(failure)) => run.settle_failed(failure),
        Err(RunError::Moved) => {
            run.settle_failed(OperationFailure::new(FailureKind::Conflict, "conflict: the branch kept moving"))
        }
        Err(RunError::Port(fault)) => run.give_up_or_hand_back(fault),
    }
}

impl LeasedRun<'_> {
    /// Extends the lease while the work goes on, and frees the worker once the operation is long-running.
    fn with_heartbeat(&self) -> Result<(), RunError> {
        let (done, beat) = mpsc::channel::<()>();
        let period = Duration::from_secs(u64::try_from(LEASE_SECONDS / 3).unwrap_or(10));
        std::thread::scope(|scope| {
            let keeping = std::thread::Builder::new().spawn_scoped(scope, move || {
                let after = Duration::from_millis(self.inner.limits.long_operation_after_ms).min(period);
                let Err(mpsc::RecvTimeoutError::Timeout) = beat.recv_timeout(after) else { return };
                let mut is_long = self.become_long();
                while let Err(mpsc::RecvTimeoutError::Timeout) = beat.recv_timeout(period) {
                    // The next heartbeat makes up for a failed one. A lost lease is noticed when the operation is settled.
                    let _ = Operations::new(self.inner).prolong(self.operation.id, self.holder);
                    is_long = is_long || self.become_long();
                }
            });
            keeping.map_err(|error| EngineError::Unavailable(format!("no thread to keep the lease by: {error}")))?;
            let ended = self.retry_moved();
            drop(done);
            ended
        })
    }

    /// Frees the worker for another operation. Returns `false` if the long lane is full.
    fn become_long(&self) -> bool {
        let is_long = self.place.become_long();
        if is_long {
            self.observer.became_long();
            self.inner.wake.one();
        }
        is_long
    }

    fn retry_moved(&self) -> Result<(), RunError> {
        for _ in 1..MOVED_RETRIES {
            match self.once() {
                Err(RunError::Moved) => {}
                ended => return ended,
            }
        }
        self.once()
    }

    fn once(&self) -> Result<(), RunError> {
        match &self.operation.work {
            Work::SqlWrite { from_branch, to_branch, statements, message, expected_head, start } => {
                let write = write::QueuedWrite {
                    from_branch,
                    to_branch,
                    statements,
                    message,
                    expected_head: expected_head.as_ref(),
                    start: start.as_ref(),
                };
                write::run(self, &write)
            }
            Work::Merge { pull, ends: _, message, resolve, rows, fast_forward } => {
                merge::run(self, *pull, message, merge::MergeDecisions { resolve, rows, fast_forward: *fast_forward })
            }
            Work::Fork { owner_id, owner, fork_id } => fork::run(self, *owner_id, owner, *fork_id),
            Work::Import(request) => import::run(self, request),
            Work::Edit(request) => edit::run(self, request),
            Work::Purge => purge::run(self),
            Work::Push(request) => push::run(self, request),
            Work::MirrorSync => mirror_sync::run(self),
            Work::Restore { branch, at, to_branch } => restore::run(self, branch, *at, to_branch),
        }
    }

    /// Returns the database and the operation's creator, after checking that the creator still has the role `needs`.
    fn begin(&self, tx: &mut dyn Transaction, needs: Role) -> Result<(Database, User), RunError> {
        let database = find_live(tx, self.operation.database_id)?;
        let database = database.ok_or_else(|| failed(FailureKind::Canceled, "its database was deleted"))?;
        let _ = self.owner.set(database.owner_id);
        let denied = || {
            failed(FailureKind::PermissionDenied, format!("{} may no longer do this", self.operation.created_by_name))
        };
        let user = tx.users().get(self.operation.created_by)?.ok_or_else(denied)?;
        if user.suspended_at.is_some() {
            return Err(failed(FailureKind::PermissionDenied, super::administration::suspended(&user)));
        }
        // A quarantine keeps operations from being leased. One that is running may finish.
        match unquarantined_role_of(tx, Some(user.id), &database)? {
            Some(role) if role >= needs => {}
            _ => return Err(denied()),
        }
        check_run::<RunError>(self.inner, tx, &database, &self.operation.work)?;
        Ok((database, user))
    }

    /// Returns the keys of the transactions that save what the operation did. They rely on the roles of its creator.
    fn keys(&self) -> WriteKeys {
        let people = [self.operation.created_by].into_iter().chain(self.owner.get().copied());
        WriteKeys::database(self.operation.database_id).and_shared(people)
    }

    /// Returns when a commit was made. Called before the transaction that saves it, for which others wait: the first look at a new
    /// commit may open a large file.
    fn made_at(&self, commit: &CommitHash) -> Result<Timestamp, RunError> {
        let found = super::branches::commit_time(self.inner, self.operation.database_id, commit);
        Ok(found.map_err(|_| PortError::Unsettled("a new commit is unreadable"))?)
    }

    /// Moves a branch to the commit `head` and emits the events. If `was` is `None`, creates the branch, whose history
    /// counts from `created_from`. `at` is the time of the commit, from [`LeasedRun::made_at`].
    fn move_branch(
        &self,
        tx: &mut dyn Transaction,
        branch: &RefName,
        was: Option<(&CommitHash, FormerCommit)>,
        created_from: &CommitHash,
        (head, at): (&CommitHash, Timestamp),
        now: Timestamp,
    ) -> Result<(), RunError> {
        let database = self.operation.database_id;
        let by = (self.operation.created_by, &self.operation.created_by_name);
        let previous = match was {
            Some((was, _)) => was,
            None => {
                let new = Branch { name: branch.clone(), head: head.clone(), updated_at: at };
                match tx.branches().add(database, &new, ref_change(self.inner, by.0, FormerCommit::Reached)) {
                    Err(MetadataError::Taken) => return Err(RunError::Moved),
                    other => other?,
                }
                emit(self.inner, tx, database, by, now, EventKind::BranchCreated { branch: branch.clone() })?;
                self.note_moved(tx, branch, head, now)?;
                created_from
            }
        };
        if head == previous {
            return Ok(());
        }
        if let Some((was, former)) = was {
            if !tx.branches().move_head(database, branch, was, head, at, ref_change(self.inner, by.0, former))? {
                return Err(RunError::Moved);
            }
            self.note_moved(tx, branch, head, now)?;
        }
        tx.databases().record_write(database, now, file_state(self.inner, database)?)?;
        let kind = EventKind::Push { branch: branch.clone(), head: head.clone(), previous: previous.clone() };
        Ok(emit(self.inner, tx, database, by, now, kind)?)
    }

    /// Records the move of a branch for the open pull requests from it.
    fn note_moved(
        &self,
        tx: &mut dyn Transaction,
        branch: &RefName,
        head: &CommitHash,
        now: Timestamp,
    ) -> Result<(), RunError> {
        self.moved_branches.lock().insert(branch.clone());
        if tx.pulls().record_source_move(self.operation.database_id, branch, head, now)? > 0 {
            self.moved_pulls.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Settles the operation as succeeded and commits `tx`.
    fn succeed(&self, mut tx: Box<dyn Transaction + '_>, outcome: Outcome, now: Timestamp) -> Result<(), RunError> {
        let settled =
            Operation { status: OperationStatus::Succeeded(outcome), finished_at: Some(now), ..self.operation.clone() };
        if !tx.operations().settle(&settled, Some(self.holder))? {
            return Err(RunError::Lost);
        }
        // Without hooks, no delivery waits for the event. The dispatcher drops such events in batches when it polls next.
        let has_hooks = tx.hooks().count(self.operation.database_id)? > 0;
        tx.commit(Durability::Synced)?;
        self.inner.settled.tell(&settled);
        if has_hooks {
            self.inner.outbox.one();
        }
        if self.moved_pulls.load(Ordering::Relaxed) {
            self.inner.fetch_wake.one();
        }
        for branch in &*self.moved_branches.lock() {
            branch_moved(self.inner, self.operation.database_id, branch);
        }
        Ok(())
    }

    fn settle_failed(&mut self, failure: OperationFailure) -> Result<Ended, PortError> {
        self.operation.status = OperationStatus::Failed(failure);
        self.operation.finished_at = Some(self.inner.now());
        let mut tx = self.inner.ports.metadata.write(&WriteKeys::database(self.operation.database_id))?;
        if !tx.operations().settle(&self.operation, Some(self.holder))? {
            return Ok(Ended::Unsettled);
        }
        let now = self.inner.now();
        match record_file(self.inner, tx.as_mut(), self.operation.database_id, SizeChange::Wasted, now) {
            // The size is measured again after the next operation.
            Ok(_) | Err(PortError::Engine(_)) => {}
            Err(error) => return Err(error),
        }
        tx.commit(Durability::Synced)?;
        self.inner.settled.tell(&self.operation);
        Ok(Ended::Failed)
    }

    fn give_up_or_hand_back(&mut self, fault: PortError) -> Result<Ended, PortError> {
        // Another attempt finds the same file.
        let is_final = matches!(fault, PortError::Engine(EngineError::UnknownFormat { .. }));
        if is_final || self.operation.attempts >= ATTEMPTS {
            let failure = match &fault {
                PortError::Engine(EngineError::Busy) => OperationFailure::new(
                    FailureKind::Unavailable,
                    "the server had no memory left for this; try again later",
                ),
                PortError::Engine(EngineError::Unavailable(_)) | PortError::Metadata(MetadataError::Unavailable(_)) => {
                    OperationFailure::new(FailureKind::Unavailable, "the storage was not available; try again later")
                }
                PortError::Blobs(error) if error.temporary => {
                    OperationFailure::new(FailureKind::Unavailable, "the storage was not available; try again later")
                }
                PortError::Engine(error @ EngineError::UnknownFormat { .. }) => {
                    OperationFailure::new(FailureKind::Unavailable, error.to_string())
                }
                PortError::Blobs(error) if error.full => {
                    OperationFailure::new(FailureKind::Unavailable, "the storage is full; try again later")
                }
                _ => OperationFailure::new(FailureKind::Internal, INTERNAL),
            };
            self.settle_failed(failure)?;
            return Err(fault);
        }
        // Waits longer after each attempt, because the cause may be temporary.
        std::thread::sleep(Duration::from_millis(100 * u64::from(self.operation.attempts)));
        // If this release fails, the worker's next call retries it. The worker gets the original fault in either case.
        if let Ok(mut tx) = self.inner.ports.metadata.write(&WriteKeys::none())
            && tx.operations().release(self.holder, true).is_ok()
        {
            let _ = tx.commit(Durability::Synced);
        }
        Err(fault)
    }
}

/// Converts an error that the operation's content caused into the operation's failure. Other errors stay faults.
pub(super) fn blame(error: EngineError, several: bool) -> RunError {
    match error {
        EngineError::Sql { failure, statement } => {
            let place = if several && statement > 1 { format!(" (statement {statement})") } else { String::new() };
            failed(FailureKind::Content, format!("{failure}{place}"))
        }
        EngineError::Import(FormatError::File(detail)) => failed(FailureKind::Content, detail),
        EngineError::Import(FormatError::Rows(rows)) => {
            let first = rows.first().map(|row| match &row.column {
                Some(column) => format!("line {}: column {column}: {}", row.line, row.detail),
                None => format!("line {}: {}", row.line, row.detail),
            });
            let detail = first.unwrap_or_else(|| "the file has records that cannot be imported".to_owned());
            RunError::Failed(OperationFailure { kind: FailureKind::Content, detail, rows })
        }
        EngineError::NoSuchTable(table) => failed(FailureKind::NotFound, format!("table not found: {table}")),
        EngineError::TableExists(table) => {
            failed(FailureKind::Conflict, format!("the database already has a table '{table}'"))
        }
        EngineError::CannotMerge(why) => failed(FailureKind::MergeConflict, why),
        EngineError::TimedOut(ms) => failed(FailureKind::Content, format!("timed out after {ms} ms")),
        other => RunError::Port(PortError::Engine(other)),
    }
}

/// Returns the failure for merge conflicts. `resolve` holds the tables for which the caller chose a side.
fn conflict(tables: &[(String, u64)], resolve: &BTreeMap<String, Side>) -> RunError {
    let parts: Vec<String> = tables
        .iter()
        .enumerate()
        .map(|(at, (table, count))| match at {
            0 => format!("{count} {} in {table}", if *count == 1 { "conflict" } else { "conflicts" }),
            _ => format!("{count} in {table}"),
        })
        .collect();
    let told = |table: &&str| resolve.keys().any(|name| name.eq_ignore_ascii_case(table));
    let in_vain: Vec<&str> = tables.iter().map(|(table, _)| table.as_str()).filter(told).collect();
    let mut detail = parts.join(", ");
    if !in_vain.is_empty() {
        detail.push_str(&format!(
            "; a side can be chosen for conflicts of rows, views and triggers, not for conflicts of a table's definition or of constraints (in {}): \
             change one of the branches until both agree there, then merge again",
            in_vain.join(", ")
        ));
    }
    failed(FailureKind::MergeConflict, detail)
}

/// Converts an error about a pull request into the operation's failure.
fn pull_failure(error: PullError) -> RunError {
    match error {
        PullError::Port(fault) => RunError::Port(fault),
        PullError::NoSuchPull | PullError::BranchGone(_) | PullError::BranchMissing(_) => {
            failed(FailureKind::NotFound, error.to_string())
        }
        PullError::Changed => RunError::Moved,
        other => failed(FailureKind::Unprocessable, other.to_string()),
    }
}
