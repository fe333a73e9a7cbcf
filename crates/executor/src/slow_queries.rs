//! Scheduling of calls that compute for a long time, apart from short calls. The number of slow calls that compute at the same time
//! is limited, even if nothing else runs.
//!
//! Every call starts as a short call, with the slot that its [`Pool`](crate::Pool) assigned. While it computes, the engine calls
//! [`SlowQueryScheduler::go_on`] on its thread at intervals. Once the call, or all calls with statements of the same shape
//! together, have used a certain processor time, the call becomes slow. It releases its slot, lowers the priority of its thread
//! and shares the processor with the other slow calls in turns. A statement whose shape was slow recently is slow from the start
//! ([`SlowQueryScheduler::begin`]), so that a retry costs nothing. Calls that wait for their first turn precede calls that have had
//! one.
//!
//! A call inside an operation that cannot be interrupted does not reach `go_on`. Its watcher makes it a slow call
//! ([`ScheduledCall::make_slow`]). A call that waits for memory makes itself slow ([`SlowQueryScheduler::pause`]).
//!
//! A slow call that waits for its client computes nothing and delays no other call. A call is refused when there are too many slow
//! calls or when its first turn would come too late: the server is overloaded.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_domain::ports::CancellationToken;
use parking_lot::{Condvar, Mutex};
use quick_cache::sync::Cache;
use rustix::time::{ClockId, clock_gettime};

use crate::pool::PoolSlot;
use crate::threads::{self, ThreadOfCall};

/// Interval at which a waiting call checks for cancellation.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum number of remembered shapes of slow statements.
const SHAPES: usize = 1_024;
/// Time for which a shape is remembered. Afterwards, the speed of the statement is measured again.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Limits of slow calls.
#[derive(Debug, Clone)]
pub struct SlowQueryLimits {
    /// Processor time after which a call is slow. Calls with statements of the same shape use it up together. Otherwise a crowd of
    /// them would share the processor until the first has used up the time on its own.
    pub slow_after: Duration,
    /// Maximum number of slow calls that compute at the same time.
    pub max_computing: usize,
    /// Maximum number of slow calls, including those that wait for their turn or their client.
    pub max_calls: usize,
    /// Maximum wait for a first turn.
    pub max_wait: Duration,
    /// Length of a turn while other slow calls wait.
    pub turn: Duration,
}

impl Default for SlowQueryLimits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            slow_after: Duration::from_millis(50),
            max_computing: cores,
            max_calls: 64,
            max_wait: Duration::from_secs(5),
            turn: Duration::from_millis(500),
        }
    }
}

/// The scheduler of slow calls. Clones share their state.
#[derive(Clone)]
pub struct SlowQueryScheduler(Arc<SharedScheduler>);

struct SharedScheduler {
    limits: SlowQueryLimits,
    state: Mutex<SchedulerState>,
    changed: Condvar,
    /// Shapes of slow statements, and when each was last found slow.
    known_slow: Cache<u64, Instant>,
    /// Processor time of running short calls by the shape of their statements.
    short_times: Mutex<HashMap<u64, Duration>>,
}

#[derive(Default)]
struct SchedulerState {
    calls: usize,
    computing: usize,
    /// Tickets of calls that wait for their first turn. They precede `again`.
    first: VecDeque<u64>,
    /// Tickets of calls that wait for another turn.
    again: VecDeque<u64>,
    next: u64,
    /// Moving average of the length of turns, as waiting calls saw it. On a busy machine, a computing call notices the end of its
    /// turn late.
    pace: Duration,
}

impl SchedulerState {
    /// Records that a call waited for `time` while others had `turns` turns.
    fn waited(&mut self, turns: u32, time: Duration, wait: Duration) {
        if turns > 0 {
            // The cap lets at least one call wait. Otherwise no new measurement could show that turns have become shorter.
            self.pace = ((self.pace * 3 + time / turns) / 4).min(wait / 2);
        }
    }

    fn ticket(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn is_next(&self, ticket: u64) -> bool {
        self.first.front().or(self.again.front()) == Some(&ticket)
    }
}

thread_local! {
    static CALL: RefCell<Option<ThreadCall>> = const { RefCell::new(None) };
}

/// The call that runs on this thread.
struct ThreadCall {
    permit: Arc<SharedPermit>,
    /// Processor time of the thread when the call began.
    began: Duration,
    shape: Option<u64>,
    counted: Option<CountedTime>,
}

/// The processor time of a short call, added to that of all short calls with the same shape.
struct CountedTime {
    scheduler: SlowQueryScheduler,
    shape: u64,
    used: Duration,
}

impl CountedTime {
    /// Adds the time used since the last count, and returns the time of all calls with this shape.
    fn count(&mut self, used: Duration) -> Duration {
        let mut short_times = self.scheduler.short_times();
        let together = short_times.entry(self.shape).or_default();
        *together += used.saturating_sub(self.used);
        self.used = used;
        *together
    }
}

impl Drop for CountedTime {
    fn drop(&mut self) {
        let mut short_times = self.scheduler.short_times();
        if let Some(together) = short_times.get_mut(&self.shape) {
            *together = together.saturating_sub(self.used);
            if together.is_zero() {
                short_times.remove(&self.shape);
            }
        }
    }
}

/// The permit of a call, which another thread may replace.
struct SharedPermit {
    state: Mutex<CallPermit>,
    thread: ThreadOfCall,
}

enum CallPermit {
    Short(PoolSlot),
    Slow(SlowPermit),
    /// The call has ended.
    Ended,
}

impl SharedPermit {
    /// Releases the permit. Afterwards, [`ScheduledCall::make_slow`] does not touch the thread, which may already run another call.
    fn end(&self) {
        let mut permit = self.state.lock();
        if matches!(*permit, CallPermit::Slow(_)) {
            threads::mark_as_lowered();
        }
        *permit = CallPermit::Ended;
    }
}

/// A handle with which another thread makes a call slow.
pub struct ScheduledCall {
    scheduler: SlowQueryScheduler,
    permit: Arc<SharedPermit>,
}

impl fmt::Debug for ScheduledCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ScheduledCall").finish_non_exhaustive()
    }
}

impl ScheduledCall {
    /// Makes a short call slow and grants it a turn at once. Its slot becomes free for the next call. Does nothing if there are
    /// too many slow calls. For a call that cannot reach [`SlowQueryScheduler::go_on`]. Does not block.
    pub fn make_slow(&self) {
        // A locked permit means that the call is waiting and does not compute.
        let Some(mut permit) = self.permit.state.try_lock() else { return };
        if let CallPermit::Short(_) = *permit
            && let Some(slow) = self.scheduler.join(Joining::AtOnce)
        {
            *permit = CallPermit::Slow(slow);
            // While the permit is locked, the thread still runs this call.
            threads::lower_priority_of(self.permit.thread);
        }
    }
}

/// Returns the processor time of this thread.
fn computed() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(used.tv_sec), u32::try_from(used.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

/// The permit of a slow call.
struct SlowPermit {
    scheduler: SlowQueryScheduler,
    /// Present until the first turn begins or is given up.
    first: Option<FirstTurn>,
    turn_began: Option<Instant>,
}

/// When a call that becomes slow has its first turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joining {
    /// After the calls that already wait for theirs.
    InTurn,
    /// At once, even if the limit on computing calls is exceeded.
    AtOnce,
    /// When the call asks for it.
    Later,
}

/// A call's wait for its first turn.
struct FirstTurn {
    ticket: u64,
    /// Estimated turns of other calls before this one.
    turns: u32,
    since: Instant,
}

/// Runs a call that holds a slot.
pub(crate) fn run<T>(slot: PoolSlot, work: impl FnOnce() -> T) -> T {
    /// Ends the call even if it panics, because the thread lives on.
    struct Left;
    impl Drop for Left {
        fn drop(&mut self) {
            if let Some(call) = CALL.take() {
                call.permit.end();
            }
        }
    }
    let permit = Arc::new(SharedPermit { state: Mutex::new(CallPermit::Short(slot)), thread: ThreadOfCall::current() });
    CALL.set(Some(ThreadCall { permit, began: computed(), shape: None, counted: None }));
    let _left = Left;
    work()
}

/// Runs `wait`, which waits for a client, while other calls may compute. Afterwards, blocks a short call until it may compute
/// again. A slow call ends its turn and waits for another one in its next [`SlowQueryScheduler::go_on`].
pub fn idle<T>(wait: impl FnOnce() -> T) -> T {
    let permit = CALL.with_borrow(|call| call.as_ref().map(|call| Arc::clone(&call.permit)));
    let Some(permit) = permit else { return wait() };
    match &mut *permit.state.lock() {
        CallPermit::Short(slot) => slot.pause(),
        CallPermit::Slow(slow) => slow.end_turn(),
        CallPermit::Ended => {}
    }
    let result = wait();
    if let CallPermit::Short(slot) = &mut *permit.state.lock() {
        slot.resume();
    }
    result
}

impl SlowQueryScheduler {
    /// Creates a scheduler with these limits.
    pub fn new(limits: SlowQueryLimits) -> Self {
        let known_slow = Cache::new(SHAPES);
        Self(Arc::new(SharedScheduler {
            limits,
            state: Mutex::default(),
            changed: Condvar::new(),
            known_slow,
            short_times: Mutex::default(),
        }))
    }

    /// Announces a statement of this shape. Call it on the thread of the call before the statement begins. Returns [`ControlFlow::Break`]
    /// if the call is refused or canceled. Calls outside a pool always continue.
    pub fn begin(&self, shape: u64, canceled: &CancellationToken) -> ControlFlow<()> {
        let Some(mut call) = CALL.take() else { return ControlFlow::Continue(()) };
        call.shape = Some(shape);
        let flow = if self.knows(shape) { self.take_turn(&mut call, canceled) } else { ControlFlow::Continue(()) };
        CALL.set(Some(call));
        flow
    }

    /// Checks whether the call may continue to compute, and waits for a turn if it is slow. Call it at intervals on the thread of
    /// the call. Returns [`ControlFlow::Break`] if the call is refused or canceled. Calls outside a pool always continue.
    pub fn go_on(&self, canceled: &CancellationToken) -> ControlFlow<()> {
        let Some(mut call) = CALL.take() else { return ControlFlow::Continue(()) };
        let is_short = matches!(*call.permit.state.lock(), CallPermit::Short(_));
        let is_slow = !is_short || self.has_become_slow(&mut call);
        let flow = if is_slow { self.take_turn(&mut call, canceled) } else { ControlFlow::Continue(()) };
        CALL.set(Some(call));
        flow
    }

    /// Prepares a call for a wait for resources that slow calls hold. Call it on the thread of the call before the wait. A short
    /// call becomes slow and releases its slot; a slow call ends its turn. The call has its next turn when it asks for one.
    /// Returns [`ControlFlow::Break`] if there are too many slow calls.
    pub fn pause(&self) -> ControlFlow<()> {
        let permit = CALL.with_borrow(|call| call.as_ref().map(|call| Arc::clone(&call.permit)));
        let Some(permit) = permit else { return ControlFlow::Continue(()) };
        let mut permit = permit.state.lock();
        match &mut *permit {
            CallPermit::Slow(slow) => slow.end_turn(),
            CallPermit::Ended => {}
            CallPermit::Short(_) => {
                let Some(slow) = self.join(Joining::Later) else { return ControlFlow::Break(()) };
                threads::lower_priority();
                *permit = CallPermit::Slow(slow);
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns a handle to the call of this thread, or `None` if the thread runs no call of a pool.
    pub fn call(&self) -> Option<ScheduledCall> {
        let permit = CALL.with_borrow(|call| call.as_ref().map(|call| Arc::clone(&call.permit)))?;
        Some(ScheduledCall { scheduler: self.clone(), permit })
    }

    fn knows(&self, shape: u64) -> bool {
        self.0.known_slow.get(&shape).is_some_and(|at| at.elapsed() < REMEMBERED)
    }

    fn has_become_slow(&self, call: &mut ThreadCall) -> bool {
        let used = computed().saturating_sub(call.began);
        let Some(shape) = call.shape else { return used >= self.0.limits.slow_after };
        let fresh = || CountedTime { scheduler: self.clone(), shape, used: Duration::ZERO };
        if call.counted.get_or_insert_with(fresh).count(used) >= self.0.limits.slow_after {
            self.0.known_slow.insert(shape, Instant::now());
            return true;
        }
        self.knows(shape)
    }

    fn short_times(&self) -> parking_lot::MutexGuard<'_, HashMap<u64, Duration>> {
        self.0.short_times.lock()
    }

    fn take_turn(&self, call: &mut ThreadCall, canceled: &CancellationToken) -> ControlFlow<()> {
        let mut permit = call.permit.state.lock();
        call.counted = None;
        if let CallPermit::Short(_) = *permit {
            let Some(slow) = self.join(Joining::InTurn) else { return ControlFlow::Break(()) };
            // From here on, short calls precede this one at the processor, and its slot is free for the next call.
            threads::lower_priority();
            *permit = CallPermit::Slow(slow);
        }
        match &mut *permit {
            CallPermit::Slow(slow) => slow.take_turn(canceled),
            CallPermit::Short(_) | CallPermit::Ended => ControlFlow::Continue(()),
        }
    }

    /// Adds a slow call. Returns `None` if there are too many slow calls, or if the first turn would come too late.
    fn join(&self, joining: Joining) -> Option<SlowPermit> {
        let SlowQueryLimits { max_computing, max_calls, max_wait, turn, .. } = self.0.limits;
        let mut state = self.0.state.lock();
        if joining != Joining::InTurn {
            if state.calls >= max_calls {
                return None;
            }
            state.calls += 1;
            let computes = joining == Joining::AtOnce;
            state.computing += usize::from(computes);
            return Some(SlowPermit { scheduler: self.clone(), first: None, turn_began: computes.then(Instant::now) });
        }
        // The calls that compute now may each have a whole turn left.
        let turns = u32::try_from((state.computing + state.first.len()) / max_computing.max(1)).unwrap_or(u32::MAX);
        // Turns end a little late. A turn that is due at the very end of the wait would come after it.
        let too_late = turns > 0 && turn.max(state.pace).saturating_mul(turns) >= max_wait;
        if state.calls >= max_calls || too_late {
            return None;
        }
        state.calls += 1;
        let ticket = state.ticket();
        state.first.push_back(ticket);
        drop(state);
        Some(SlowPermit {
            scheduler: self.clone(),
            first: Some(FirstTurn { ticket, turns, since: Instant::now() }),
            turn_began: None,
        })
    }

    fn end_turn(&self) {
        self.0.state.lock().computing -= 1;
        self.0.changed.notify_all();
    }
}

impl SlowPermit {
    /// Continues the current turn, or waits for one.
    fn take_turn(&mut self, canceled: &CancellationToken) -> ControlFlow<()> {
        if let Some(began) = self.turn_began {
            let state = self.scheduler.0.state.lock();
            let others_wait = !(state.first.is_empty() && state.again.is_empty());
            drop(state);
            if !others_wait || began.elapsed() < self.scheduler.0.limits.turn {
                return ControlFlow::Continue(());
            }
            self.end_turn();
        }
        self.wait_for_turn(canceled)
    }

    fn wait_for_turn(&mut self, canceled: &CancellationToken) -> ControlFlow<()> {
        let scheduler = &self.scheduler.0;
        let mut state = self.scheduler.0.state.lock();
        // Only a call without a first turn is refused. A call that may have begun its response continues.
        let first = self.first.take();
        let until = first.as_ref().map(|first| first.since + scheduler.limits.max_wait);
        let ticket = if let Some(first) = &first {
            first.ticket
        } else {
            let ticket = state.ticket();
            state.again.push_back(ticket);
            ticket
        };
        let flow = loop {
            if state.computing < scheduler.limits.max_computing && state.is_next(ticket) {
                state.computing += 1;
                self.turn_began = Some(Instant::now());
                break ControlFlow::Continue(());
            }
            if canceled.is_canceled() || until.is_some_and(|until| Instant::now() >= until) {
                break ControlFlow::Break(());
            }
            scheduler.changed.wait_for(&mut state, LOOK);
        };
        state.first.retain(|waiting| *waiting != ticket);
        state.again.retain(|waiting| *waiting != ticket);
        if let Some(FirstTurn { turns, since, .. }) = first
            && !canceled.is_canceled()
        {
            state.waited(turns, since.elapsed(), scheduler.limits.max_wait);
        }
        drop(state);
        // The ticket that is first now may also have its turn.
        scheduler.changed.notify_all();
        flow
    }

    fn end_turn(&mut self) {
        if self.turn_began.take().is_some() {
            self.scheduler.end_turn();
        }
    }
}

impl Drop for SlowPermit {
    fn drop(&mut self) {
        self.end_turn();
        let mut state = self.scheduler.0.state.lock();
        state.calls -= 1;
        if let Some(first) = &self.first {
            state.first.retain(|waiting| *waiting != first.ticket);
        }
    }
}

#[cfg(test)]
mod tests;
