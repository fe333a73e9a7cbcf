//! The turn of a database: its next direct writes run and are settled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::settling::Settling;
use super::{DirectProgress, DirectTurn, LinedWrite, TurnStage};
use crate::access::visibility::role_from;
use crate::call_context;
use crate::entities::{
    Database, EventKind, Operation, OperationFailure, OperationStatus, Outcome, Role, Signature, Work,
};
use crate::errors::{OperationError, PortError};
use crate::ports::{
    BatchedWrite, BranchFacts, EngineError, MergeOutcome, MetadataError, SizeChange, SqlFailure, Transaction,
    WriteKeys, Written,
};
use crate::usecases::collections::record_file;
use crate::usecases::engine_files::file_state;
use crate::usecases::operations::Ended;
use crate::usecases::outbox::{SentEvent, emit_of, note_activity};
use crate::usecases::pulls::branch_moved;
use crate::usecases::quotas::{check_run, check_work};
use crate::usecases::ref_log::{FormerCommit, ref_change};
use crate::usecases::run::{RunError, blame};
use crate::usecases::{Hub, Inner, idempotency};
use crate::values::{AccountId, CommitHash, RefName, Timestamp};

/// Time limit of the statements of a direct write. A write that takes longer starts over as a queued operation.
const SHORT: Duration = Duration::from_millis(25);
/// Time after which no further write of a turn begins.
const TURN_TIME: Duration = Duration::from_millis(40);

/// A direct write that has run.
struct RunWrite {
    write: LinedWrite,
    status: OperationStatus,
    /// The commits before and after, if they differ.
    moved: Option<(CommitHash, CommitHash)>,
}

/// Where a turn starts.
struct TurnStart {
    /// The commit.
    base: CommitHash,
    /// The generation of the database, which has the commits of the turn.
    generation: i64,
}

/// What a turn did to its branch.
#[derive(Default)]
struct Moved {
    has_moved: bool,
    /// Whether an open pull request comes from the branch.
    concerns_pulls: bool,
    has_hooks: bool,
}

/// Why a turn was not settled.
enum NotSettled {
    /// Nothing was changed.
    Undone,
    /// Whether it was settled is unknown.
    Unknown,
}

impl<E: Into<PortError>> From<E> for NotSettled {
    fn from(_: E) -> Self {
        Self::Undone
    }
}

impl DirectTurn {
    /// Runs the next writes of the line, at most for as long as a few short statements take. Blocks. Each caller
    /// receives how its write ended.
    pub fn run(mut self, hub: &Hub) {
        let (inner, began) = (&*hub.inner, Instant::now());
        let (writes, before) = self.writes.take(self.database);
        self.stage = TurnStage::Running;
        let Some(branch) = writes.first().map(|write| write.branch.clone()) else { return };
        // A turn on another branch gains nothing from the one before it.
        let before = before.filter(|before| {
            let is_same = before.branch == branch;
            if !is_same {
                before.wait();
            }
            is_same
        });
        let started_at = inner.now();
        let Some((start, writes)) = self.admit(inner, &branch, before.as_deref(), writes) else { return };
        let run = self.write(inner, &start.base, writes, started_at);
        if run.is_empty() {
            return;
        }
        let settled = match before.is_none_or(|before| before.wait()) {
            true => {
                self.hand_over(&branch, &run);
                self.settle(inner, &start, &run, started_at)
            }
            false => Err(NotSettled::Undone),
        };
        if let TurnStage::Settling(settling) = &self.stage {
            settling.end(settled.is_ok());
        }
        match settled {
            Ok(operations) => {
                for (run, operation) in run.into_iter().zip(operations) {
                    let ended =
                        if matches!(run.status, OperationStatus::Failed(_)) { Ended::Failed } else { Ended::Succeeded };
                    inner.direct_ends.announce(ended, began.elapsed());
                    inform(&run.write, DirectProgress::Ended(Box::new(operation)));
                }
            }
            Err(NotSettled::Undone) => run.iter().for_each(|run| inform(&run.write, DirectProgress::Queue)),
            Err(NotSettled::Unknown) => run.iter().for_each(|run| {
                let lost = PortError::Metadata(MetadataError::Unavailable("the end of a write was not stored".into()));
                inform(&run.write, DirectProgress::Fault(lost));
            }),
        }
    }

    /// Lets the next turn begin if this one moves the branch.
    fn hand_over(&mut self, branch: &RefName, run: &[RunWrite]) {
        let Some((_, head)) = run.iter().rev().find_map(|run| run.moved.as_ref()) else { return };
        let settling = Arc::new(Settling::new(branch.clone(), head.clone()));
        self.stage = TurnStage::Settling(Arc::clone(&settling));
        self.writes.hand_over(self.database, &settling);
    }

    /// Returns where to start, which is at the head that the turn `before` is about to give to the branch, and the writes that
    /// may run. The others have to be queued.
    fn admit(
        &self,
        inner: &Inner,
        branch: &RefName,
        before: Option<&Settling>,
        writes: Vec<LinedWrite>,
    ) -> Option<(TurnStart, Vec<LinedWrite>)> {
        let found = (|| -> Result<Option<(TurnStart, Vec<AccountId>)>, PortError> {
            let mut tx = inner.ports.metadata.look()?;
            let users = writes.iter().map(|write| write.user.id);
            let Some((facts, writers)) = self.facts(tx.as_mut(), branch, users, inner.now())? else { return Ok(None) };
            tx.discard();
            if facts.database.quarantined_at.is_some() || facts.is_held_up {
                return Ok(None);
            }
            let head = before.map(|before| before.head.clone()).or(facts.head);
            let generation = facts.database.generation;
            Ok(head.map(|base| (TurnStart { base, generation }, writers)))
        })();
        let Ok(Some((start, writers))) = found else {
            writes.iter().for_each(|write| inform(write, DirectProgress::Queue));
            return None;
        };
        let is_at_its_commit =
            |write: &LinedWrite| write.expected_head.as_ref().is_none_or(|expected| *expected == start.base);
        let may_run = |write: &LinedWrite| writers.contains(&write.user.id) && is_at_its_commit(write);
        let (may, others): (Vec<_>, Vec<_>) = writes.into_iter().partition(may_run);
        others.iter().for_each(|write| inform(write, DirectProgress::Queue));
        (!may.is_empty()).then_some((start, may))
    }

    /// Runs the statements. Writes behind one that failed go back to the line.
    fn write(&self, inner: &Inner, base: &CommitHash, mut writes: Vec<LinedWrite>, now: Timestamp) -> Vec<RunWrite> {
        let signatures: Vec<Signature> = writes.iter().map(|write| write.user.signature(now)).collect();
        let timeout = SHORT.min(Duration::from_millis(inner.limits.write_timeout_ms));
        let jobs: Vec<BatchedWrite<'_>> = writes
            .iter()
            .zip(&signatures)
            .map(|(write, author)| BatchedWrite {
                statements: &write.statements,
                message: &write.message,
                author,
                timeout,
            })
            .collect();
        let results = inner.ports.engine.write_batch(self.database, base, &jobs, TURN_TIME);
        drop(jobs);
        let rest = writes.split_off(results.len().min(writes.len()));
        let mut before = base.clone();
        let mut run = Vec::with_capacity(writes.len());
        for (write, result) in writes.into_iter().zip(results) {
            match result {
                Ok(Written { outcome: MergeOutcome::Head(head), rows_affected }) => {
                    let outcome = Outcome {
                        commit: Some(head.clone()),
                        previous: Some(before.clone()),
                        rows_affected: Some(rows_affected),
                        ..Outcome::default()
                    };
                    let moved = (head != before).then(|| (before.clone(), head.clone()));
                    before = head;
                    run.push(RunWrite { write, status: OperationStatus::Succeeded(outcome), moved });
                }
                Ok(Written { outcome: MergeOutcome::Conflicts(_), .. }) => inform(&write, DirectProgress::Queue),
                Err(error) => match self.failure(error) {
                    Some(failure) => {
                        run.push(RunWrite { write, status: OperationStatus::Failed(failure), moved: None });
                    }
                    None => inform(&write, DirectProgress::Queue),
                },
            }
        }
        if !rest.is_empty() {
            self.writes.put_back(self.database, rest);
        }
        run
    }

    /// Returns how a write failed. `None` if it has to run as a queued operation.
    fn failure(&self, error: EngineError) -> Option<OperationFailure> {
        if let EngineError::TimedOut(_) | EngineError::Sql { failure: SqlFailure::TimedOut(_), .. } = error {
            self.writes.cool(self.database);
            return None;
        }
        match blame(error, true) {
            RunError::Failed(failure) => Some(failure),
            RunError::Port(_) | RunError::Moved | RunError::Lost => None,
        }
    }

    /// Moves the branch and records the operations with their events, in one transaction.
    fn settle(
        &self,
        inner: &Inner,
        start: &TurnStart,
        run: &[RunWrite],
        started_at: Timestamp,
    ) -> Result<Vec<Operation>, NotSettled> {
        let now = inner.now();
        let people = run.iter().flat_map(|run| [run.write.user.id, run.write.owner]);
        let keys = WriteKeys::database(self.database).and_shared(people);
        let mut tx = inner.ports.metadata.write(&keys)?;
        // No other transaction changes these rights until this one ends.
        let Some(branch) = run.first().map(|run| &run.write.branch) else { return Err(NotSettled::Undone) };
        let users = run.iter().map(|run| run.write.user.id);
        let (facts, writers) = self.facts(tx.as_mut(), branch, users, now)?.ok_or(NotSettled::Undone)?;
        let database = &facts.database;
        // A collection of another node may have taken what was committed for garbage.
        let is_kept = database.generation == start.generation;
        if !is_kept || run.iter().any(|run| !writers.contains(&run.write.user.id)) {
            return Err(NotSettled::Undone);
        }
        let operations: Vec<Operation> = run.iter().map(|run| self.operation(database, run, started_at, now)).collect();
        for operation in &operations {
            check_quotas(inner, tx.as_mut(), database, &operation.work, now)?;
        }
        let moved = self.move_branch(inner, tx.as_mut(), &facts, &start.base, run, (started_at, now))?;
        for (run, operation) in run.iter().zip(&operations) {
            tx.operations().add(operation)?;
            // The answer is saved as that to a queued operation, whose end the replay of the request looks up.
            let queued = || Operation {
                status: OperationStatus::Queued,
                started_at: None,
                finished_at: None,
                attempts: 0,
                ..operation.clone()
            };
            run.write.waiter.with_key(&mut |once| match once {
                Some(_) => idempotency::keep(inner, tx.as_mut(), once, &queued(), now),
                None => Ok(()),
            })?;
        }
        if run.iter().any(|run| matches!(run.status, OperationStatus::Failed(_))) && !moved.has_moved {
            // The size is measured again after the next operation.
            let _ = record_file(inner, tx.as_mut(), self.database, SizeChange::Wasted, now);
        }
        tx.commit_notifying(&mut || {}).map_err(|error| match error {
            MetadataError::Unavailable(_) => NotSettled::Unknown,
            MetadataError::Taken | MetadataError::Fault { .. } => NotSettled::Undone,
        })?;
        for (run, operation) in run.iter().zip(&operations) {
            if let Some(context) = &run.write.context {
                context.enter(|| {
                    call_context::note_operation(operation.id);
                    call_context::note_database(&operation.locator);
                });
            }
            inner.settled.tell(operation);
        }
        if moved.has_hooks {
            inner.outbox.one();
        }
        if moved.concerns_pulls {
            inner.fetch_wake.one();
        }
        if moved.has_moved
            && let Some(run) = run.first()
        {
            branch_moved(inner, self.database, &run.write.branch);
        }
        Ok(operations)
    }

    /// Returns the facts about the branch, and those of the users that may write to the database. `None` if it has been deleted.
    fn facts(
        &self,
        tx: &mut dyn Transaction,
        branch: &RefName,
        users: impl Iterator<Item = AccountId>,
        now: Timestamp,
    ) -> Result<Option<(BranchFacts, Vec<AccountId>)>, PortError> {
        let (mut writers, mut last) = (Vec::new(), None);
        for user in users.collect::<BTreeSet<_>>() {
            let Some(facts) = tx.databases().branch_facts(self.database, branch, user, now)? else { return Ok(None) };
            if facts.database.deleted_at.is_some() {
                return Ok(None);
            }
            let role = facts.writer.and_then(|sources| role_from(&facts.database, Some(user), sources));
            writers.extend((role >= Some(Role::Write)).then_some(user));
            last = Some(facts);
        }
        Ok(last.map(|facts| (facts, writers)))
    }

    fn operation(&self, database: &Database, run: &RunWrite, started_at: Timestamp, now: Timestamp) -> Operation {
        let RunWrite { write, status, .. } = run;
        Operation {
            id: write.id,
            database_id: self.database,
            locator: database.locator.clone(),
            work: Work::SqlWrite {
                from_branch: write.branch.clone(),
                to_branch: write.branch.clone(),
                statements: write.statements.clone(),
                message: write.message.clone(),
                expected_head: write.expected_head.clone(),
                start: None,
            },
            status: status.clone(),
            created_by: write.user.id,
            created_by_name: write.user.name.clone(),
            created_at: write.created_at,
            started_at: Some(started_at),
            finished_at: Some(now),
            attempts: 1,
            trace: write.trace,
        }
    }

    /// Moves the branch to the last commit and records the events.
    fn move_branch(
        &self,
        inner: &Inner,
        tx: &mut dyn Transaction,
        facts: &BranchFacts,
        base: &CommitHash,
        run: &[RunWrite],
        (started_at, now): (Timestamp, Timestamp),
    ) -> Result<Moved, NotSettled> {
        let (database, has_hooks) = (&facts.database, facts.has_hooks);
        let moves = || run.iter().filter_map(|run| Some((&run.write, run.moved.as_ref()?)));
        let Some((write, (_, head))) = moves().next_back() else { return Ok(Moved::default()) };
        // The time of the commits, which is in whole seconds.
        let at = Timestamp::from_seconds(started_at.as_seconds());
        let change = ref_change(inner, write.user.id, FormerCommit::Reached);
        if !tx.branches().move_head(self.database, &write.branch, base, head, at, change)? {
            return Err(NotSettled::Undone);
        }
        let concerns_pulls =
            facts.has_pulls && tx.pulls().record_source_move(self.database, &write.branch, head, now)? > 0;
        tx.databases().record_write(self.database, now, file_state(inner, self.database)?)?;
        // Without hooks, no delivery would wait for the events.
        for (write, (previous, head)) in moves() {
            let by = (write.user.id, &write.user.name);
            let kind = EventKind::Push { branch: write.branch.clone(), head: head.clone(), previous: previous.clone() };
            let context = crate::CallContext::new(write.trace);
            let event = SentEvent { database: (database.id, &database.locator), by, at: now, kind };
            context.enter(|| {
                if has_hooks { emit_of(inner, tx, event) } else { note_activity(inner, tx, &event).map(drop) }
            })?;
        }
        Ok(Moved { has_moved: true, concerns_pulls, has_hooks })
    }
}

/// Reports to a caller how its write ended. A caller that left is not interested any more.
fn inform(write: &LinedWrite, progress: DirectProgress) {
    drop(write.waiter.notify(progress));
}

fn check_quotas(
    inner: &Inner,
    tx: &mut dyn Transaction,
    database: &Database,
    work: &Work,
    now: Timestamp,
) -> Result<(), NotSettled> {
    // The queued operation reports which quota is used up.
    let undone = |_: OperationError| NotSettled::Undone;
    check_work::<OperationError>(inner, tx, database, work, now).map_err(undone)?;
    check_run::<OperationError>(inner, tx, database, work).map_err(undone)
}
