//! Direct writes: short SQL writes that run while their clients wait, and are recorded once, with their end.
//!
//! Each database has a line of direct writes. Consecutive ones to the same branch run in one turn, each as a commit and an
//! operation of its own, and one transaction settles them all. A caller that waits in the line is notified when it has to run
//! a turn, so no thread waits in the line. While a turn is settled, the statements of the next one run, on the commit that is
//! about to become the head of the branch; if it does not, their writes are queued.
//!
//! A write that cannot run in this way is queued like any other operation: if it takes long, if the database has
//! unsettled operations, which come first, or if something else has to be decided before it runs. Nothing of a direct
//! write is stored before its turn settles, so a crash leaves at most commits without a ref, and no client has learned
//! of them.
//!
//! Turns exclude operations and collections of the same database: a turn is registered here before it looks for either in
//! the metadata store, and they are recorded there before they [wait](DirectWrites::wait_until_idle) for the turn.

mod settling;
mod turn;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use self::settling::Settling;
use super::{IdempotencyRecord, Inner};
use crate::CallContext;
use crate::call_context;
use crate::entities::{Operation, User};
use crate::errors::PortError;
use crate::values::{AccountId, CommitHash, DatabaseId, OperationId, RefName, Timestamp, TraceContext};

/// Maximum number of writes in one turn.
const TURN_WRITES: usize = 32;
/// Maximum length of the statements in one turn, in bytes. A longer write is queued.
const TURN_BYTES: usize = 256 << 10;
/// Turns that run at the same time, per worker for operations. They mostly wait for the disk and the metadata store.
const TURNS_PER_WORKER: usize = 8;
/// Maximum number of turns that run at the same time.
const TURNS: usize = 32;
/// How long the writes of a database are queued after one of them turned out to be long.
const COOLING: Duration = Duration::from_secs(10);
/// Maximum number of databases in that state. Beyond it, all of them leave it.
const COOLING_MAX: usize = 10_000;

/// Returns the maximum number of turns of direct writes that run at the same time in a process with this many workers for
/// operations; 0 stands for one per core.
pub fn most_direct_turns(workers: usize) -> usize {
    let workers = if workers == 0 { available_parallelism().map_or(1, NonZero::get) } else { workers };
    workers.saturating_mul(TURNS_PER_WORKER).min(TURNS)
}

/// What a caller that waits for a direct write receives.
pub enum DirectProgress {
    /// The caller has to run this turn now.
    Run(DirectTurn),
    /// The write has ended and is recorded as this operation, succeeded or failed.
    Ended(Box<Operation>),
    /// The write has not run and is not recorded. The caller has to queue it.
    Queue,
    /// Whether the write took effect is unknown.
    Fault(PortError),
}

/// Saves the answer to a write under the idempotency key of its request, if there is one.
pub type KeepAnswer<'a> = dyn FnMut(Option<&IdempotencyRecord<'_, Operation>>) -> Result<(), PortError> + 'a;

/// A caller that waits for a direct write.
pub trait DirectWaiter: Send + Sync {
    /// Receives what happened. Returns it if the caller no longer waits.
    ///
    /// # Errors
    /// The argument.
    fn notify(&self, progress: DirectProgress) -> Result<(), DirectProgress>;

    /// Calls `keep` with the idempotency key under which the answer to the write is saved, if the request has one.
    ///
    /// # Errors
    /// The errors of `keep`.
    fn with_key(&self, keep: &mut KeepAnswer<'_>) -> Result<(), PortError>;
}

/// A write in a line.
struct LinedWrite {
    number: u64,
    id: OperationId,
    user: Arc<User>,
    /// The owner of the database.
    owner: AccountId,
    branch: RefName,
    statements: String,
    message: String,
    /// The commit that the statements have to run on.
    expected_head: Option<CommitHash>,
    created_at: Timestamp,
    trace: Option<TraceContext>,
    context: Option<Arc<CallContext>>,
    waiter: Arc<dyn DirectWaiter>,
}

/// The direct writes of a database.
#[derive(Default)]
struct Line {
    writes: VecDeque<LinedWrite>,
    /// Whether there is a turn whose statements have not ended, and which may still wait for a thread.
    has_turn: bool,
    /// Number of turns that run, including the one that is being settled.
    running: usize,
    /// The turn that is being settled.
    settling: Option<Arc<Settling>>,
}

impl Line {
    fn is_unused(&self) -> bool {
        self.writes.is_empty() && !self.has_turn && self.running == 0
    }
}

#[derive(Default)]
struct Lines {
    by_database: HashMap<DatabaseId, Line>,
    /// Databases with writes and without a turn, in the order in which they get one.
    ready: VecDeque<DatabaseId>,
    turns: usize,
    turns_of: BTreeMap<AccountId, usize>,
    cooling: HashMap<DatabaseId, Instant>,
    next_number: u64,
}

/// All lines of direct writes.
pub(crate) struct DirectWrites {
    lines: Mutex<Lines>,
    /// Notified when a turn ends.
    ended: Condvar,
    most_turns: usize,
}

impl DirectWrites {
    /// Creates lines for a process with this many workers for operations; 0 stands for one per core.
    pub(super) fn new(workers: usize) -> Self {
        Self { lines: Mutex::default(), ended: Condvar::new(), most_turns: most_direct_turns(workers) }
    }

    /// Adds a write to the line of its database. Returns `None` if it has to be queued instead.
    pub(super) fn join(
        self: &Arc<Self>,
        inner: &Inner,
        database: DatabaseId,
        write: NewWrite,
        waiter: Arc<dyn DirectWaiter>,
    ) -> Option<DirectPlace> {
        let most = inner.limits.queued_per_database;
        if write.statements.len() > TURN_BYTES || most == 0 {
            return None;
        }
        let now = inner.now();
        let id = OperationId::from_uuid(inner.ports.ids.uuid(now));
        let mut lines = self.lines.lock();
        if let Some(until) = lines.cooling.get(&database) {
            if *until > Instant::now() {
                return None;
            }
            lines.cooling.remove(&database);
        }
        lines.next_number += 1;
        let number = lines.next_number;
        let line = lines.by_database.entry(database).or_default();
        if line.writes.len() as u64 >= most {
            return None;
        }
        line.writes.push_back(LinedWrite {
            number,
            id,
            user: write.user,
            owner: write.owner,
            branch: write.branch,
            statements: write.statements,
            message: write.message,
            expected_head: write.expected_head,
            created_at: now,
            trace: call_context::trace(),
            context: CallContext::current(),
            waiter,
        });
        if !line.has_turn && line.writes.len() == 1 {
            lines.ready.push_back(database);
        }
        drop(lines);
        self.grant();
        Some(DirectPlace { writes: Arc::clone(self), database, number })
    }

    /// Grants turns to databases that are ready, within the limits.
    fn grant(self: &Arc<Self>) {
        loop {
            let mut lines = self.lines.lock();
            let Some((turn, number, waiter)) = self.next_turn(&mut lines) else { return };
            drop(lines);
            if let Err(DirectProgress::Run(turn)) = waiter.notify(DirectProgress::Run(turn)) {
                // Its caller has just left, and takes its write out of the line itself if it can still do so.
                self.remove(turn.database, number);
                drop(turn);
            }
        }
    }

    fn next_turn(self: &Arc<Self>, lines: &mut Lines) -> Option<(DirectTurn, u64, Arc<dyn DirectWaiter>)> {
        if lines.turns >= self.most_turns {
            return None;
        }
        let per_creator = (self.most_turns / 2).max(1);
        let Lines { by_database, ready, turns_of, .. } = lines;
        let may_run = |database: &DatabaseId| {
            let first = by_database.get(database).and_then(|line| line.writes.front());
            first.is_none_or(|write| turns_of.get(&write.user.id).is_none_or(|turns| *turns < per_creator))
        };
        let database = ready.remove(ready.iter().position(may_run)?)?;
        let line = by_database.get_mut(&database)?;
        let Some(first) = line.writes.front() else {
            by_database.remove(&database);
            return self.next_turn(lines);
        };
        line.has_turn = true;
        let (creator, number, waiter) = (first.user.id, first.number, Arc::clone(&first.waiter));
        lines.turns += 1;
        *lines.turns_of.entry(creator).or_default() += 1;
        Some((DirectTurn { writes: Arc::clone(self), database, creator, stage: TurnStage::Waiting }, number, waiter))
    }

    /// Removes a write from its line. Returns `false` if it is not in the line any more.
    fn remove(&self, database: DatabaseId, number: u64) -> bool {
        let mut lines = self.lines.lock();
        let Some(line) = lines.by_database.get_mut(&database) else { return false };
        let removed = line.writes.iter().position(|write| write.number == number).and_then(|at| line.writes.remove(at));
        if line.writes.is_empty() {
            let is_unused = line.is_unused();
            lines.ready.retain(|ready| *ready != database);
            if is_unused {
                lines.by_database.remove(&database);
            }
        }
        drop(lines);
        // Dropped without the lock, because the caller may hold a turn, which ends then.
        removed.is_some()
    }

    /// Takes the writes of the next turn: the first ones of the line that go to the same branch. Returns them with the turn
    /// that is being settled.
    fn take(&self, database: DatabaseId) -> (Vec<LinedWrite>, Option<Arc<Settling>>) {
        let mut lines = self.lines.lock();
        let line = lines.by_database.entry(database).or_default();
        line.running += 1;
        let settling = line.settling.clone();
        let Some(branch) = line.writes.front().map(|write| write.branch.clone()) else { return (Vec::new(), settling) };
        let mut bytes = 0;
        let fits = |write: &&LinedWrite| {
            bytes += write.statements.len();
            write.branch == branch && bytes <= TURN_BYTES
        };
        // Where a write that expects a commit would run is known only if it is the first of its turn.
        let is_before_expectation = |write: &LinedWrite| write.expected_head.is_none();
        let most = 1 + line.writes.iter().skip(1).take_while(|write| is_before_expectation(write)).count();
        let count = line.writes.iter().take(TURN_WRITES.min(most)).take_while(fits).count();
        (line.writes.drain(..count).collect(), settling)
    }

    /// Puts writes back in front of their line.
    fn put_back(&self, database: DatabaseId, writes: Vec<LinedWrite>) {
        let mut lines = self.lines.lock();
        let line = lines.by_database.entry(database).or_default();
        for write in writes.into_iter().rev() {
            line.writes.push_front(write);
        }
    }

    /// Queues the writes of a database for a while, because one of them was long.
    fn cool(&self, database: DatabaseId) {
        let mut lines = self.lines.lock();
        if lines.cooling.len() >= COOLING_MAX {
            lines.cooling.clear();
        }
        lines.cooling.insert(database, Instant::now() + COOLING);
    }

    /// Lets the next turn of a database begin, while one is being settled.
    fn hand_over(self: &Arc<Self>, database: DatabaseId, settling: &Arc<Settling>) {
        let mut lines = self.lines.lock();
        if let Some(line) = lines.by_database.get_mut(&database) {
            line.settling = Some(Arc::clone(settling));
        }
        self.pass_on(lines, database);
    }

    /// Ends the turn that runs statements, and grants the next ones.
    fn pass_on(self: &Arc<Self>, mut lines: MutexGuard<'_, Lines>, database: DatabaseId) {
        let Lines { by_database, ready, .. } = &mut *lines;
        if let Some(line) = by_database.get_mut(&database) {
            line.has_turn = false;
            if !line.writes.is_empty() {
                ready.push_back(database);
            } else if line.is_unused() {
                by_database.remove(&database);
            }
        }
        drop(lines);
        self.ended.notify_all();
        self.grant();
    }

    fn end(self: &Arc<Self>, turn: &DirectTurn) {
        let mut lines = self.lines.lock();
        lines.turns -= 1;
        if let Some(turns) = lines.turns_of.get_mut(&turn.creator) {
            *turns -= 1;
            if *turns == 0 {
                lines.turns_of.remove(&turn.creator);
            }
        }
        let Lines { by_database, .. } = &mut *lines;
        if let Some(line) = by_database.get_mut(&turn.database)
            && !matches!(turn.stage, TurnStage::Waiting)
        {
            line.running -= 1;
        }
        let TurnStage::Settling(settling) = &turn.stage else { return self.pass_on(lines, turn.database) };
        if let Some(line) = by_database.get_mut(&turn.database) {
            line.settling.take_if(|last| Arc::ptr_eq(last, settling));
            if line.is_unused() {
                by_database.remove(&turn.database);
            }
        }
        drop(lines);
        // Takes effect only after a panic.
        settling.end(false);
        self.ended.notify_all();
        self.grant();
    }

    /// Waits until no turn of the database runs. To be called after something that excludes further turns was recorded.
    pub(super) fn wait_until_idle(&self, database: DatabaseId) {
        let mut lines = self.lines.lock();
        while lines.by_database.get(&database).is_some_and(|line| line.running > 0) {
            self.ended.wait(&mut lines);
        }
    }
}

/// A write that joins a line.
pub(super) struct NewWrite {
    pub(super) user: Arc<User>,
    /// The owner of the database.
    pub(super) owner: AccountId,
    pub(super) branch: RefName,
    pub(super) statements: String,
    pub(super) message: String,
    /// The commit that the statements have to run on.
    pub(super) expected_head: Option<CommitHash>,
}

/// The place of a write in its line. Dropping it removes the write, unless its turn has begun.
pub struct DirectPlace {
    writes: Arc<DirectWrites>,
    database: DatabaseId,
    number: u64,
}

impl DirectPlace {
    /// Removes the write from its line. Returns `false` if its turn has begun, whose end the caller then receives.
    pub fn leave(&self) -> bool {
        self.writes.remove(self.database, self.number)
    }
}

impl Drop for DirectPlace {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The right and the duty to run the next direct writes of a database. Dropping it passes both on.
pub struct DirectTurn {
    writes: Arc<DirectWrites>,
    database: DatabaseId,
    creator: AccountId,
    stage: TurnStage,
}

/// How far a turn has come.
enum TurnStage {
    /// It waits for a thread.
    Waiting,
    /// Its statements run, or it is being settled without another turn beside it.
    Running,
    /// Its statements have run and the next turn may begin.
    Settling(Arc<Settling>),
}

impl Drop for DirectTurn {
    fn drop(&mut self) {
        self.writes.end(self);
    }
}
