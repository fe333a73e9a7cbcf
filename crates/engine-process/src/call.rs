//! Runs a call on a worker: sends it, answers the questions of the worker, and ends it when its time is over.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{
    CancellationToken, Column, EngineError, FormatError, Reachability, RowSink, RowSource, ValueRef,
};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_engine_doltlite::{
    Ancestry, CellBatch, CommitParents, EngineOptions, Long, MemoryLender, MemoryPool, WatchedCall, WriteQueues,
    WriteTurn,
};

use crate::channel::{Channel, ChannelError};
use crate::history::reached;
use crate::messages::{Call, FromWorker, RowBatch, Signal, ToWorker};
use crate::pool::{Borrowed, Pool};
use crate::process::{LOOK, Shared};
use crate::wire::domain::{MOST_VALUE, get_value};
use crate::wire::{Bytes, Input, Malformed, Wire};

/// Delay of a question whether to go on from which a call counts as silent.
const SILENCE: Duration = Duration::from_millis(40);
/// Time between the end of the rows that are needed and the interrupt of the statement.
const STOP_AFTER: Duration = Duration::from_millis(50);
/// Messages longer than this take memory from the pool of statements, in bytes.
const LONG_MESSAGE: usize = 1 << 20;
/// Wait for that memory.
const MEMORY_WAIT: Duration = Duration::from_secs(5);
/// Rows to import are sent in batches of this many rows or bytes.
const BATCH_ROWS: usize = 2_048;
const BATCH_BYTES: usize = 256 << 10;
/// Longest piece of a script, in bytes.
const PIECE_BYTES: usize = 256 << 10;
/// Memory of a worker beside that of the statement, in bytes: caches of connections, idle or in use.
pub(crate) const CACHES: usize = 128 << 20;

/// Returns how much memory a call may take, in bytes: as much as the worker may use.
pub(crate) fn most_memory(options: &EngineOptions) -> i64 {
    i64::try_from(options.write_memory().saturating_add(CACHES)).unwrap_or(i64::MAX / 2)
}

/// What the server has and a worker may ask for.
pub(crate) struct Resources<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) memory: &'a Arc<MemoryPool>,
    pub(crate) queues: &'a WriteQueues,
    pub(crate) ancestry: &'a Ancestry,
    pub(crate) reachability: Option<&'a Arc<dyn Reachability>>,
    pub(crate) long: Option<&'a Long>,
    pub(crate) kill_after: Duration,
    /// Maximum of the memory that a call may take, in bytes.
    pub(crate) most_memory: i64,
    pub(crate) make_temporary: &'a dyn Fn() -> io::Result<std::fs::File>,
}

/// The receivers and sources of a call.
#[derive(Default)]
pub(crate) struct Ends<'a> {
    pub(crate) sink: Option<&'a mut dyn RowSink>,
    pub(crate) rows: Option<&'a mut dyn RowSource>,
    pub(crate) script: Option<&'a mut dyn Read>,
    pub(crate) cells: Option<&'a mut dyn FnMut(CellBatch) -> bool>,
}

/// The bounds of a call.
pub(crate) struct Bounds {
    /// Maximum computing time of the worker.
    pub(crate) limit: Duration,
    pub(crate) canceled: CancellationToken,
}

/// Why a call has no result.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The worker did not end in time, and was killed. Holds the limit.
    Overdue(Duration),
    /// The call was canceled or its database removed, and the worker killed because it did not end.
    Canceled,
    /// The worker ended by itself.
    Ended,
    /// The worker broke the protocol, and was killed.
    Broke(&'static str),
    /// There was no memory for the answer.
    NoMemory,
    /// The system failed.
    Io(io::Error),
}

/// What remains of a call that ended.
pub(crate) struct Outcome<T> {
    pub(crate) result: Result<T, Failed>,
    /// Whether the receiver wanted no more rows.
    pub(crate) is_stopped: bool,
    /// Whether the receiver got anything, or a source was read.
    pub(crate) is_begun: bool,
}

/// A call whose message is queued.
pub(crate) struct Begun {
    number: u32,
    since: Instant,
    was_spent: bool,
    may_take_turn: bool,
}

/// Begins a call: queues its message. Until [`run`] has run the call, the worker counts as spent.
pub(crate) fn begin(borrowed: &mut Borrowed, call: &Call) -> Result<Begun, Failed> {
    let worker = borrowed.worker();
    worker.calls += 1;
    let was_spent = std::mem::replace(&mut worker.is_spent, true);
    let number = worker.calls;
    if worker.channel.has_more() {
        return Err(Failed::Broke("a message without a call"));
    }
    let put = |out: &mut Vec<u8>| {
        number.put(out);
        call.put(out);
    };
    let queued = worker.channel.queue(ToWorker::Call.number(), put);
    queued.map_err(|_| Failed::Broke("a message of a wrong length"))?;
    let may_take_turn = matches!(call, Call::Verify { .. } | Call::Fetch { .. });
    Ok(Begun { number, since: Instant::now(), was_spent, may_take_turn })
}

/// Sends as much of a begun call as the worker takes at once. Returns `false` if the worker has ended.
pub(crate) fn send_now(borrowed: &mut Borrowed) -> bool {
    borrowed.worker().channel.flush_now().is_ok()
}

/// Returns `true` if the whole result of a begun call has arrived. Never blocks.
pub(crate) fn is_at_hand(borrowed: &mut Borrowed) -> bool {
    let channel = &mut borrowed.worker().channel;
    // A failure is reported to the one who takes the result. A worker that has not read its call could keep it waiting.
    !channel.has_unsent()
        && channel.receive_now().is_ok()
        && channel
            .received_kinds()
            .map_while(|kind| FromWorker::of(kind).filter(|kind| kind.needs_no_answer()))
            .any(|kind| kind == FromWorker::Done)
}

/// Runs a call to its end, with descriptors for the worker.
pub(crate) fn run<T: Wire>(
    borrowed: &mut Borrowed,
    begun: Result<Begun, Failed>,
    resources: &Resources<'_>,
    database: DatabaseId,
    descriptors: &[BorrowedFd<'_>],
    bounds: &Bounds,
    ends: &mut Ends<'_>,
) -> Outcome<T> {
    let Begun { number, since, was_spent, may_take_turn } = match begun {
        Ok(begun) => begun,
        Err(failed) => {
            borrowed.worker().shared.kill();
            resources.pool.count_killed();
            return Outcome { result: Err(failed), is_stopped: false, is_begun: false };
        }
    };
    let worker = borrowed.worker();
    let (channel, control, shared) = worker.parts();
    let watched = resources.long.and_then(|long| long.turns.call());
    if let Some(long) = resources.long {
        long.turns.computes_in(shared.pid);
    }
    let clock = Clock {
        resources,
        shared,
        control,
        number,
        bounds,
        watched,
        computed: Duration::ZERO,
        since,
        last_sign: Instant::now(),
        state: Stage::Running,
        stopping: None,
    };
    let mut running = Running {
        database,
        channel,
        clock,
        ends,
        width: None,
        is_stopped: false,
        is_begun: false,
        kept: None,
        ahead: None,
        turn: None,
        may_take_turn,
        lent: Loan::new(resources.memory),
    };
    let result = running.exchange(descriptors);
    let (is_stopped, is_begun) = (running.is_stopped, running.is_begun);
    // Returns the write turn and the memory.
    drop(running);
    let is_lowered = resources.long.is_some_and(|long| long.turns.returned());
    let worker = borrowed.worker();
    worker.is_spent = was_spent || is_lowered || result.is_err();
    if let Err(failed) = &result {
        worker.shared.kill();
        if matches!(failed, Failed::Overdue(_) | Failed::Canceled | Failed::Broke(_)) {
            resources.pool.count_killed();
        }
    }
    Outcome { result, is_stopped, is_begun }
}

/// Memory of the pool, which it returns when dropped.
struct Loan<'a> {
    pool: &'a MemoryPool,
    bytes: i64,
}

impl<'a> Loan<'a> {
    fn new(pool: &'a MemoryPool) -> Self {
        Self { pool, bytes: 0 }
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.pool.give_back(self.bytes);
    }
}

/// How far the end of a call has come.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Running,
    Interrupted(Instant, Reason),
    Killed(Reason),
}

#[derive(Debug, Clone, Copy)]
enum Reason {
    Overdue,
    Canceled,
}

/// Watches the time of a call.
struct Clock<'a> {
    resources: &'a Resources<'a>,
    shared: &'a Shared,
    control: &'a UnixStream,
    number: u32,
    bounds: &'a Bounds,
    watched: Option<Arc<dyn WatchedCall>>,
    /// Time that the worker computed before `since`.
    computed: Duration,
    since: Instant,
    /// When the worker last asked or said something.
    last_sign: Instant,
    state: Stage,
    /// When the receiver had enough rows.
    stopping: Option<Instant>,
}

impl Clock<'_> {
    /// Looks at the limits while nothing comes from the worker. Returns `false` once the worker has to be killed.
    fn look(&mut self) -> bool {
        let now = Instant::now();
        if let Some(long) = self.resources.long
            && now - self.last_sign > long.every + SILENCE
            && let Some(watched) = &self.watched
        {
            watched.is_silent();
        }
        match self.state {
            Stage::Running => {
                let computed = self.computed + (now - self.since);
                let is_revoked = self.shared.is_revoked.load(Ordering::Relaxed);
                let reason = if computed >= self.bounds.limit {
                    Reason::Overdue
                } else if is_revoked
                    || self.bounds.canceled.is_canceled()
                    || self.stopping.is_some_and(|since| now - since >= STOP_AFTER)
                {
                    Reason::Canceled
                } else {
                    return true;
                };
                crate::process::WorkerProcess::signal(self.control, Signal::Cancel, self.number);
                self.state = Stage::Interrupted(now, reason);
                true
            }
            Stage::Interrupted(at, reason) => {
                let goes_on = now - at < self.resources.kill_after;
                if !goes_on {
                    self.state = Stage::Killed(reason);
                }
                goes_on
            }
            Stage::Killed(_) => false,
        }
    }

    /// Runs something on the side of the server, with the clock stopped.
    fn stopped<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.stopped_with(|_| work())
    }

    fn failed(&self, error: ChannelError) -> Failed {
        match (error, self.state) {
            (_, Stage::Killed(Reason::Overdue)) => Failed::Overdue(self.bounds.limit),
            (_, Stage::Killed(Reason::Canceled)) => Failed::Canceled,
            (ChannelError::Closed, _) if self.shared.is_revoked.load(Ordering::Relaxed) => Failed::Canceled,
            (ChannelError::Closed, _) => Failed::Ended,
            (ChannelError::TooLong(_), _) => Failed::Broke("a message of a wrong length"),
            (ChannelError::Descriptors, _) => Failed::Broke("descriptors"),
            (ChannelError::GivenUp, _) => Failed::NoMemory,
            (ChannelError::Io(error), _) => Failed::Io(error),
        }
    }
}

/// A call in progress.
struct Running<'a, 'b> {
    database: DatabaseId,
    channel: &'a mut Channel,
    clock: Clock<'a>,
    ends: &'a mut Ends<'b>,
    /// Number of columns of the result.
    width: Option<usize>,
    is_stopped: bool,
    is_begun: bool,
    /// An error of the source of rows, after rows that were sent.
    kept: Option<FormatError>,
    /// The next batch of rows, read while the worker imports the one before.
    ahead: Option<Result<RowBatch, FormatError>>,
    turn: Option<WriteTurn>,
    /// Whether the worker may ask for the write turn. During other calls this thread may hold it already.
    may_take_turn: bool,
    /// Memory that the worker took from the pool.
    lent: Loan<'a>,
}

/// What to do after a message.
enum Next<T> {
    Done(T),
    Receive,
    /// Send an answer.
    Reply(Vec<u8>),
    /// Send rows, and read the next ones.
    ReplyRows(Result<RowBatch, FormatError>),
    /// Send an answer with a temporary file.
    ReplyFile(std::fs::File),
    /// Look up a commit.
    Reach(CommitHash),
}

impl Running<'_, '_> {
    fn exchange<T: Wire>(&mut self, descriptors: &[BorrowedFd<'_>]) -> Result<T, Failed> {
        self.flush(descriptors)?;
        loop {
            match self.next()? {
                // It would count as the answer to the next call.
                Next::Done(_) if self.channel.has_more() => return Err(Failed::Broke("a message after its result")),
                Next::Done(result) => return Ok(result),
                Next::Receive => {}
                Next::Reply(answer) => self.send(ToWorker::Reply, |out| out.extend_from_slice(&answer), &[])?,
                Next::ReplyRows(batch) => {
                    self.send(ToWorker::Reply, |out| batch.put(out), &[])?;
                    let has_more = batch.is_ok_and(|batch| !batch.is_last);
                    if let Some(rows) = self.ends.rows.as_mut().filter(|_| has_more) {
                        self.ahead = Some(next_rows(&mut **rows, &mut self.kept));
                    }
                }
                Next::ReplyFile(file) => {
                    use std::os::fd::AsFd as _;
                    self.send(ToWorker::Reply, |out| true.put(out), &[file.as_fd()])?;
                }
                Next::Reach(commit) => {
                    let reached = self.reaches(&commit)?;
                    self.send(ToWorker::Reply, |out| reached.put(out), &[])?;
                }
            }
            self.look()?;
        }
    }

    /// Looks at the limits although the worker is not silent: it may never be.
    fn look(&mut self) -> Result<(), Failed> {
        if self.clock.look() { Ok(()) } else { Err(self.clock.failed(ChannelError::GivenUp)) }
    }

    fn send(
        &mut self,
        kind: ToWorker,
        put: impl FnOnce(&mut Vec<u8>),
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), Failed> {
        self.channel.queue(kind.number(), put).map_err(|error| self.clock.failed(error))?;
        self.flush(descriptors)
    }

    fn flush(&mut self, descriptors: &[BorrowedFd<'_>]) -> Result<(), Failed> {
        let Self { channel, clock, .. } = self;
        channel.flush(descriptors, &mut || clock.look()).map_err(|error| clock.failed(error))
    }

    /// Receives a message and acts on it.
    fn next<T: Wire>(&mut self) -> Result<Next<T>, Failed> {
        let Self {
            database,
            channel,
            clock,
            ends,
            width,
            is_stopped,
            is_begun,
            kept,
            ahead,
            turn,
            may_take_turn,
            lent,
        } = self;
        let resources = clock.resources;
        // Returned after the message was used, whatever comes of it.
        let mut held = Loan::new(resources.memory);
        let received = {
            let cell = std::cell::RefCell::new(&mut *clock);
            let mut room = |length: usize| {
                if length <= LONG_MESSAGE {
                    return true;
                }
                let bytes = i64::try_from(length).unwrap_or(i64::MAX);
                let canceled = CancellationToken::default();
                let taken = resources.memory.take(bytes, bytes)
                    || cell.borrow_mut().stopped(|| {
                        resources.memory.wait_for(bytes, MEMORY_WAIT, &canceled) && resources.memory.take(bytes, bytes)
                    });
                if taken {
                    held.bytes = bytes;
                }
                taken
            };
            channel.receive(&mut || cell.borrow_mut().look(), &mut room)
        };
        let message = match received {
            Ok(message) => message,
            Err(error) => return Err(clock.failed(error)),
        };
        clock.last_sign = Instant::now();
        let content = message.content;
        let kind = FromWorker::of(message.kind).ok_or(Failed::Broke("an unknown message"))?;
        let broke = |_: Malformed| Failed::Broke("a malformed message");
        let next = match kind {
            FromWorker::Done => {
                let (number, result) = <(u32, T)>::decode(content).map_err(broke)?;
                if number != clock.number {
                    return Err(Failed::Broke("the result of another call"));
                }
                Next::Done(result)
            }
            FromWorker::Columns => {
                let columns = Vec::<Column>::decode(content).map_err(broke)?;
                let sink = ends.sink.as_mut().filter(|_| width.is_none());
                let sink = sink.ok_or(Failed::Broke("columns where none belong"))?;
                *width = Some(columns.len());
                if clock.stopped(|| sink.columns(&columns)).is_break() {
                    stop(clock, is_stopped);
                }
                Next::Receive
            }
            FromWorker::Rows => {
                let sink = ends.sink.as_mut().ok_or(Failed::Broke("rows where none belong"))?;
                let width = width.filter(|width| *width > 0).ok_or(Failed::Broke("rows before their columns"))?;
                if !*is_stopped {
                    *is_begun = true;
                    clock.shared.stalled_since.store(resources.pool.moment(), Ordering::Relaxed);
                    let passed = clock.stopped(|| pass_rows(content, width, &mut **sink));
                    clock.shared.stalled_since.store(0, Ordering::Relaxed);
                    if passed.map_err(broke)?.is_break() {
                        stop(clock, is_stopped);
                    }
                }
                Next::Receive
            }
            FromWorker::Cells => {
                let cells = ends.cells.as_mut().ok_or(Failed::Broke("rows where none belong"))?;
                let batch = CellBatch::decode(content).map_err(broke)?;
                if batch.iter().flatten().any(|cell| cell.bytes() > MOST_VALUE) {
                    return Err(Failed::Broke("a value that is too long"));
                }
                *is_begun = true;
                if !*is_stopped && !clock.stopped(|| cells(batch)) {
                    stop(clock, is_stopped);
                }
                Next::Receive
            }
            FromWorker::NextRows => {
                let rows = ends.rows.as_mut().ok_or(Failed::Broke("no rows belong to this call"))?;
                *is_begun = true;
                let batch = ahead.take().unwrap_or_else(|| clock.stopped(|| next_rows(&mut **rows, kept)));
                Next::ReplyRows(batch)
            }
            FromWorker::NextBytes => {
                let wanted = usize::decode(content).map_err(broke)?.min(PIECE_BYTES);
                let script = ends.script.as_mut().ok_or(Failed::Broke("no script belongs to this call"))?;
                *is_begun = true;
                let piece = clock.stopped(|| next_piece(&mut **script, wanted));
                Next::Reply(piece.encode())
            }
            FromWorker::EnterTurn => {
                if !*may_take_turn || turn.is_some() {
                    return Err(Failed::Broke("a question for a write turn that it cannot get"));
                }
                *turn = Some(clock.stopped(|| resources.queues.enter(*database)));
                Next::Reply(Vec::new())
            }
            FromWorker::LeaveTurn => {
                *turn = None;
                Next::Receive
            }
            FromWorker::Reaches => Next::Reach(CommitHash::decode(content).map_err(broke)?),
            FromWorker::GoOn | FromWorker::Pause => {
                let may = clock.stopped_with(|clock| match resources.long {
                    Some(long) if kind == FromWorker::GoOn => long.turns.go_on(&clock.bounds.canceled),
                    Some(long) => long.turns.pause(),
                    None => ControlFlow::Continue(()),
                });
                Next::Reply(may.is_continue().encode())
            }
            FromWorker::TakeMemory => {
                let (bytes, holds) = <(i64, i64)>::decode(content).map_err(broke)?;
                if !(1..=resources.most_memory).contains(&bytes) {
                    return Err(Failed::Broke("a wrong size of memory"));
                }
                let taken =
                    lent.bytes + bytes <= resources.most_memory && resources.memory.take(bytes, holds.max(lent.bytes));
                if taken {
                    lent.bytes += bytes;
                }
                Next::Reply(taken.encode())
            }
            FromWorker::ReturnMemory => {
                let bytes = i64::decode(content).map_err(broke)?;
                if bytes < 0 {
                    return Err(Failed::Broke("a wrong size of memory"));
                }
                // A worker may still have memory of an earlier call, which was returned when that call ended.
                let bytes = bytes.min(lent.bytes);
                lent.bytes -= bytes;
                resources.memory.give_back(bytes);
                Next::Receive
            }
            FromWorker::WaitForMemory => {
                let (bytes, wait) = <(i64, Duration)>::decode(content).map_err(broke)?;
                if !(0..=resources.most_memory).contains(&bytes) {
                    return Err(Failed::Broke("a wrong size of memory"));
                }
                let wait = wait.min(MEMORY_WAIT);
                let waited = clock.stopped_with(|clock| resources.memory.wait_for(bytes, wait, &clock.bounds.canceled));
                Next::Reply(waited.encode())
            }
            FromWorker::TemporaryFile => match (resources.make_temporary)() {
                Ok(file) => Next::ReplyFile(file),
                Err(error) => {
                    tracing::warn!(%error, "cannot make a temporary file for a worker process");
                    Next::Reply(false.encode())
                }
            },
            FromWorker::Ready | FromWorker::Bound | FromWorker::Parents => {
                return Err(Failed::Broke("a message out of order"));
            }
        };
        Ok(next)
    }

    /// Returns whether the database shows a commit. The search may ask the worker for parents of commits.
    fn reaches(&mut self, commit: &CommitHash) -> Result<Result<bool, EngineError>, Failed> {
        let resources = self.clock.resources;
        let (database, mut failed) = (self.database, None);
        let Some(reachability) = resources.reachability else { return Ok(Ok(false)) };
        let reached = reachability.reaches(database, commit, &mut |heads: &[CommitHash]| {
            let mut parents = |from: &CommitHash, limit: usize| {
                self.parents(from, limit).unwrap_or_else(|error| {
                    failed = Some(error);
                    Err(EngineError::Unavailable("the worker process ended".into()))
                })
            };
            let commits = std::slice::from_ref(commit);
            Ok(reached(resources.ancestry, database, heads, commits, &mut parents)? == [true])
        });
        match failed {
            Some(failed) => Err(failed),
            None => Ok(reached),
        }
    }

    fn parents(&mut self, from: &CommitHash, limit: usize) -> Result<Result<CommitParents, EngineError>, Failed> {
        self.look()?;
        self.send(ToWorker::Parents, |out| (from.clone(), limit).put(out), &[])?;
        let Self { channel, clock, .. } = self;
        let message = match channel.receive(&mut || clock.look(), &mut |length| length <= LONG_MESSAGE) {
            Ok(message) => message,
            Err(error) => return Err(clock.failed(error)),
        };
        match FromWorker::of(message.kind) {
            Some(FromWorker::Parents) => {
                let parents: Result<CommitParents, _> =
                    Wire::decode(message.content).map_err(|_: Malformed| Failed::Broke("a malformed message"))?;
                if parents.as_ref().is_ok_and(|parents| parents.len() > limit) {
                    return Err(Failed::Broke("more commits than were asked for"));
                }
                Ok(parents)
            }
            _ => Err(Failed::Broke("a message out of order")),
        }
    }
}

impl Clock<'_> {
    /// As [`Self::stopped`], for work that looks at the clock's bounds.
    fn stopped_with<T>(&mut self, work: impl FnOnce(&Self) -> T) -> T {
        let stopped = Instant::now();
        self.computed += stopped - self.since;
        let result = work(self);
        self.since = Instant::now();
        self.last_sign = self.since;
        if let Stage::Interrupted(at, _) = &mut self.state {
            *at += self.since - stopped;
        }
        result
    }
}

/// Signals that no more rows are needed.
fn stop(clock: &mut Clock<'_>, is_stopped: &mut bool) {
    if !std::mem::replace(is_stopped, true) {
        clock.stopping = Some(Instant::now());
        crate::process::WorkerProcess::signal(clock.control, Signal::Stop, clock.number);
    }
}

/// Passes the rows of a message on.
fn pass_rows(content: &[u8], width: usize, sink: &mut dyn RowSink) -> Result<ControlFlow<()>, Malformed> {
    let mut input = Input::new(content);
    let mut row: Vec<ValueRef<'_>> = Vec::with_capacity(width.min(content.len()));
    while !input.is_at_end() {
        row.clear();
        for _ in 0..width {
            row.push(get_value(&mut input)?);
        }
        if sink.row(&row).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Reads a batch of rows. An error after rows is kept for the next batch.
fn next_rows(rows: &mut dyn RowSource, kept: &mut Option<FormatError>) -> Result<RowBatch, FormatError> {
    if let Some(error) = kept.take() {
        return Err(error);
    }
    let mut batch = RowBatch { rows: Vec::new(), is_last: false };
    let mut bytes = 0;
    while batch.rows.len() < BATCH_ROWS && bytes < BATCH_BYTES {
        let mut row = Vec::new();
        match rows.next(&mut row) {
            Ok(Some(line)) => {
                bytes += row.iter().map(Cell::bytes).sum::<usize>();
                batch.rows.push((line, row));
            }
            Ok(None) => {
                batch.is_last = true;
                break;
            }
            Err(error) if batch.rows.is_empty() => return Err(error),
            Err(error) => {
                *kept = Some(error);
                break;
            }
        }
    }
    Ok(batch)
}

fn next_piece(script: &mut dyn Read, wanted: usize) -> Result<Bytes, io::Error> {
    let mut piece = vec![0; wanted];
    loop {
        match script.read(&mut piece) {
            Ok(bytes) => {
                piece.truncate(bytes);
                return Ok(Bytes(piece));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

const _: () = assert!(LOOK.as_millis() < SILENCE.as_millis());
