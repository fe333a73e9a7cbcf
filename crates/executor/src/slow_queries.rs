//! Calls that compute for long, apart from the short ones: so many of them at once as there are places, whatever there is to do.
//!
//! Every call begins in the short lane, with the place its [`Pool`](crate::Pool) gave it. The engine asks [`SlowQueryScheduler::go_on`] on its
//! thread now and then; once the call, or all that run the like of its statement together, has computed for a while it leaves its place
//! to the next one, lowers the priority of its thread and takes turns with the other long ones. A statement like one that went that way
//! lately goes it from its beginning ([`SlowQueryScheduler::begin`]), so that trying again costs nothing. Who is new comes before who had a turn.
//! A call that does not ask, because it is within something that cannot be stopped, is made a long one by the one who watches it
//! ([`ScheduledCall::make_long`]); one that waits for memory becomes one by itself ([`SlowQueryScheduler::pause`]).
//! A long call that waits for its client computes nothing and holds up nobody. When there are too many, or a first turn would be too
//! long in coming, the call is refused: the server is overloaded.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use branchyard_domain::ports::{CancellationToken, Flow};
use quick_cache::sync::Cache;
use rustix::time::{ClockId, clock_gettime};

use crate::pool::PoolPermit;
use crate::threads::{self, ThreadOfCall};

/// How often one who waits looks whether anybody still wants its result.
const LOOK: Duration = Duration::from_millis(50);
/// Shapes of long statements that are known.
const SHAPES: usize = 1_024;
/// How long a shape is known; then a statement may show anew how long it takes.
const REMEMBERED: Duration = Duration::from_secs(60);

/// How many long calls there may be.
#[derive(Debug, Clone)]
pub struct SlowQueryLimits {
    /// Processor time after which a call is a long one; calls with statements alike use it up together, since a crowd of them would have to share
    /// the processor until the first has used it up alone.
    pub after: Duration,
    /// Long calls that compute at once.
    pub places: usize,
    /// Long calls there are at once: those that compute, wait for their turn, or for their client.
    pub calls: usize,
    /// How long one waits for its first turn.
    pub wait: Duration,
    /// How long a turn lasts when others wait.
    pub turn: Duration,
}

impl Default for SlowQueryLimits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            after: Duration::from_millis(50),
            places: cores,
            calls: 64,
            wait: Duration::from_secs(5),
            turn: Duration::from_millis(500),
        }
    }
}

/// The lane of long calls. Clones are the same lane.
#[derive(Clone)]
pub struct SlowQueryScheduler(Arc<Lane>);

struct Lane {
    sizes: SlowQueryLimits,
    state: Mutex<SchedulerState>,
    changed: Condvar,
    /// Shapes of statements that took long, and when.
    known: Cache<u64, Instant>,
    /// Processor time of short calls under way, by the shape of their statements.
    under_way: Mutex<HashMap<u64, Duration>>,
}

#[derive(Default)]
struct SchedulerState {
    calls: usize,
    computing: usize,
    /// Who waits for their first turn; they come first.
    first: VecDeque<u64>,
    /// Who waits for another one.
    again: VecDeque<u64>,
    next: u64,
    /// How long a turn has lasted of late for those who waited: on a busy machine who computes notices its end late.
    pace: Duration,
}

impl SchedulerState {
    /// Somebody has waited for so long while others had so many turns.
    fn waited(&mut self, turns: u32, time: Duration, wait: Duration) {
        if turns > 0 {
            // Somebody has to be let in, or nobody would find out that turns are shorter again.
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

/// The call of this thread.
struct ThreadCall {
    place: Arc<SharedPlace>,
    /// Processor time of the thread when it began.
    began: Duration,
    shape: Option<u64>,
    counted: Option<CountedTime>,
}

/// Processor time of a short call, counted with that of others under way.
struct CountedTime {
    lane: SlowQueryScheduler,
    shape: u64,
    used: Duration,
}

impl CountedTime {
    /// Gives the time of all together.
    fn count(&mut self, used: Duration) -> Duration {
        let mut under_way = self.lane.under_way();
        let together = under_way.entry(self.shape).or_default();
        *together += used.saturating_sub(self.used);
        self.used = used;
        *together
    }
}

impl Drop for CountedTime {
    fn drop(&mut self) {
        let mut under_way = self.lane.under_way();
        if let Some(together) = under_way.get_mut(&self.shape) {
            *together = together.saturating_sub(self.used);
            if together.is_zero() {
                under_way.remove(&self.shape);
            }
        }
    }
}

/// The place of a call, which another thread may change.
struct SharedPlace {
    place: Mutex<PermitState>,
    thread: ThreadOfCall,
}

enum PermitState {
    Short(PoolPermit),
    Long(SlowPermit),
    /// The call has ended.
    None,
}

impl SharedPlace {
    fn lock(&self) -> MutexGuard<'_, PermitState> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the place. Afterwards [`ScheduledCall::make_long`] leaves the thread alone, which may already run another call.
    fn end(&self) {
        let mut place = self.lock();
        if matches!(*place, PermitState::Long(_)) {
            threads::has_lowered_priority();
        }
        *place = PermitState::None;
    }
}

/// A handle with which another thread makes a call a long one.
pub struct ScheduledCall {
    lane: SlowQueryScheduler,
    place: Arc<SharedPlace>,
}

impl fmt::Debug for ScheduledCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ScheduledCall").finish_non_exhaustive()
    }
}

impl ScheduledCall {
    /// Makes a short call a long one with a turn, unless there are too many already; its place is the next one's. For a call that does not
    /// ask by itself. Does not block.
    pub fn make_long(&self) {
        // Locked, it is waiting for something, and computes nothing.
        let Ok(mut place) = self.place.place.try_lock() else { return };
        if let PermitState::Short(_) = *place
            && let Some(stay) = self.lane.join(Joining::AtOnce)
        {
            *place = PermitState::Long(stay);
            // While the place is locked, the thread still has this call.
            threads::lower_priority_of(self.place.thread);
        }
    }
}

/// Processor time this thread has used.
fn computed() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(used.tv_sec), u32::try_from(used.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

/// One of the long calls.
struct SlowPermit {
    lane: SlowQueryScheduler,
    /// Until the first turn comes or is given up.
    first: Option<FirstTurn>,
    turn_began: Option<Instant>,
}

/// When a call that becomes a long one has its first turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joining {
    /// After those who wait for theirs.
    InTurn,
    /// It computes, whatever others do.
    AtOnce,
    /// Not before it asks.
    Later,
}

/// Somebody who waits for its first turn.
struct FirstTurn {
    ticket: u64,
    /// Turns of others that came before it, as far as was known then.
    turns: u32,
    since: Instant,
}

/// Runs a call that holds a place.
pub(crate) fn run<T>(place: PoolPermit, work: impl FnOnce() -> T) -> T {
    /// Also when the call panics: the thread lives on.
    struct Left;
    impl Drop for Left {
        fn drop(&mut self) {
            if let Some(call) = CALL.take() {
                call.place.end();
            }
        }
    }
    let place = Arc::new(SharedPlace { place: Mutex::new(PermitState::Short(place)), thread: ThreadOfCall::current() });
    CALL.set(Some(ThreadCall { place, began: computed(), shape: None, counted: None }));
    let _left = Left;
    work()
}

/// Runs something that waits for a client; others compute meanwhile. Blocks after it until the call may compute again; a long one is
/// asked to wait when it next asks.
pub fn idle<T>(wait: impl FnOnce() -> T) -> T {
    let place = CALL.with_borrow(|call| call.as_ref().map(|call| Arc::clone(&call.place)));
    let Some(place) = place else { return wait() };
    match &mut *place.lock() {
        PermitState::Short(place) => place.pause(),
        PermitState::Long(stay) => stay.end_turn(),
        PermitState::None => {}
    }
    let result = wait();
    if let PermitState::Short(place) = &mut *place.lock() {
        place.resume();
    }
    result
}

impl SlowQueryScheduler {
    /// A lane.
    pub fn new(sizes: SlowQueryLimits) -> Self {
        let known = Cache::new(SHAPES);
        Self(Arc::new(Lane {
            sizes,
            state: Mutex::default(),
            changed: Condvar::new(),
            known,
            under_way: Mutex::default(),
        }))
    }

    /// To be asked by a call on its own thread before a statement of this shape begins. Calls that did not come through a pool may go on.
    pub fn begin(&self, shape: u64, canceled: &CancellationToken) -> Flow {
        let Some(mut call) = CALL.take() else { return Flow::Continue };
        call.shape = Some(shape);
        let flow = if self.knows(shape) { self.take_turn(&mut call, canceled) } else { Flow::Continue };
        CALL.set(Some(call));
        flow
    }

    /// To be asked by a call on its own thread now and then while it computes. Calls that did not come through a pool may go on.
    pub fn go_on(&self, canceled: &CancellationToken) -> Flow {
        let Some(mut call) = CALL.take() else { return Flow::Continue };
        let is_short = matches!(*call.place.lock(), PermitState::Short(_));
        let is_long = !is_short || self.has_become_long(&mut call);
        let flow = if is_long { self.take_turn(&mut call, canceled) } else { Flow::Continue };
        CALL.set(Some(call));
        flow
    }

    /// To be called on the thread of a call before it waits for what long calls hold: it leaves its place, or ends its turn, and has the next
    /// turn when it asks for one. [`Flow::Stop`] when there are too many long calls.
    pub fn pause(&self) -> Flow {
        let place = CALL.with_borrow(|call| call.as_ref().map(|call| Arc::clone(&call.place)));
        let Some(place) = place else { return Flow::Continue };
        let mut place = place.lock();
        match &mut *place {
            PermitState::Long(stay) => stay.end_turn(),
            PermitState::None => {}
            PermitState::Short(_) => {
                let Some(stay) = self.join(Joining::Later) else { return Flow::Stop };
                threads::lower_priority();
                *place = PermitState::Long(stay);
            }
        }
        Flow::Continue
    }

    /// Returns a handle to the call of this thread, or `None` if the thread runs no call of a pool.
    pub fn call(&self) -> Option<ScheduledCall> {
        let place = CALL.with_borrow(|call| call.as_ref().map(|call| Arc::clone(&call.place)))?;
        Some(ScheduledCall { lane: self.clone(), place })
    }

    fn knows(&self, shape: u64) -> bool {
        self.0.known.get(&shape).is_some_and(|at| at.elapsed() < REMEMBERED)
    }

    fn has_become_long(&self, call: &mut ThreadCall) -> bool {
        let used = computed().saturating_sub(call.began);
        let Some(shape) = call.shape else { return used >= self.0.sizes.after };
        let fresh = || CountedTime { lane: self.clone(), shape, used: Duration::ZERO };
        if call.counted.get_or_insert_with(fresh).count(used) >= self.0.sizes.after {
            self.0.known.insert(shape, Instant::now());
            return true;
        }
        self.knows(shape)
    }

    fn under_way(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Duration>> {
        self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_turn(&self, call: &mut ThreadCall, canceled: &CancellationToken) -> Flow {
        let mut place = call.place.lock();
        call.counted = None;
        if let PermitState::Short(_) = *place {
            let Some(stay) = self.join(Joining::InTurn) else { return Flow::Stop };
            // From here on short ones go before it at the processor, and its place is the next one's.
            threads::lower_priority();
            *place = PermitState::Long(stay);
        }
        match &mut *place {
            PermitState::Long(stay) => stay.take_turn(canceled),
            PermitState::Short(_) | PermitState::None => Flow::Continue,
        }
    }

    /// `None` when there are too many, or so many are before it that its turn would not come in time.
    fn join(&self, joining: Joining) -> Option<SlowPermit> {
        let SlowQueryLimits { places, calls, wait, turn, .. } = self.0.sizes;
        let mut state = self.lock();
        if joining != Joining::InTurn {
            if state.calls >= calls {
                return None;
            }
            state.calls += 1;
            let computes = joining == Joining::AtOnce;
            state.computing += usize::from(computes);
            return Some(SlowPermit { lane: self.clone(), first: None, turn_began: computes.then(Instant::now) });
        }
        // Those who compute now have up to a whole turn before them.
        let turns = u32::try_from((state.computing + state.first.len()) / places.max(1)).unwrap_or(u32::MAX);
        // Turns end a little late, so one that is due at the very end of the wait would come after it.
        let too_late = turns > 0 && turn.max(state.pace).saturating_mul(turns) >= wait;
        if state.calls >= calls || too_late {
            return None;
        }
        state.calls += 1;
        let ticket = state.ticket();
        state.first.push_back(ticket);
        drop(state);
        Some(SlowPermit {
            lane: self.clone(),
            first: Some(FirstTurn { ticket, turns, since: Instant::now() }),
            turn_began: None,
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SchedulerState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn free_place(&self) {
        self.lock().computing -= 1;
        self.0.changed.notify_all();
    }
}

impl SlowPermit {
    /// Goes on with its turn, or waits for one.
    fn take_turn(&mut self, canceled: &CancellationToken) -> Flow {
        if let Some(began) = self.turn_began {
            let state = self.lane.lock();
            let others_wait = !(state.first.is_empty() && state.again.is_empty());
            drop(state);
            if !others_wait || began.elapsed() < self.lane.0.sizes.turn {
                return Flow::Continue;
            }
            self.end_turn();
        }
        self.wait_for_turn(canceled)
    }

    fn wait_for_turn(&mut self, canceled: &CancellationToken) -> Flow {
        let lane = &self.lane.0;
        let mut state = self.lane.lock();
        // Only who has had no turn yet is refused: what has begun to answer goes on.
        let first = self.first.take();
        let until = first.as_ref().map(|first| first.since + lane.sizes.wait);
        let ticket = if let Some(first) = &first {
            first.ticket
        } else {
            let ticket = state.ticket();
            state.again.push_back(ticket);
            ticket
        };
        let flow = loop {
            if state.computing < lane.sizes.places && state.is_next(ticket) {
                state.computing += 1;
                self.turn_began = Some(Instant::now());
                break Flow::Continue;
            }
            if canceled.is_canceled() || until.is_some_and(|until| Instant::now() >= until) {
                break Flow::Stop;
            }
            state = lane.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        };
        state.first.retain(|waiting| *waiting != ticket);
        state.again.retain(|waiting| *waiting != ticket);
        if let Some(FirstTurn { turns, since, .. }) = first
            && !canceled.is_canceled()
        {
            state.waited(turns, since.elapsed(), lane.sizes.wait);
        }
        drop(state);
        // Whoever is first now may find a place as well.
        lane.changed.notify_all();
        flow
    }

    fn end_turn(&mut self) {
        if self.turn_began.take().is_some() {
            self.lane.free_place();
        }
    }
}

impl Drop for SlowPermit {
    fn drop(&mut self) {
        self.end_turn();
        let mut state = self.lane.lock();
        state.calls -= 1;
        if let Some(first) = &self.first {
            state.first.retain(|waiting| *waiting != first.ticket);
        }
    }
}

#[cfg(test)]
mod tests;
