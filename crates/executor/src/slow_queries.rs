//! Scheduling of calls that compute for a long time, apart from short calls. The number of slow calls that compute at the same time
//! is limited, even if nothing else runs.
//!
//! Every call starts as a short call, with the slot that its [`Pool`](crate::Pool) assigned. While it computes, the engine calls
//! [`SlowQueryScheduler::go_on`] on its thread at intervals. Once the call, or all calls with statements of the same shape
//! together, have used a certain processor time, the call becomes slow. It releases its slot, lowers the priority of its thread
//! and shares the processor with the other slow calls in turns. A statement whose shape was slow recently is slow from the start
//! ([`SlowQueryScheduler::begin`]), so that a retry costs nothing. The callers have turns in turn. Of the calls of a caller, those
//! that wait for their first turn precede those that have had one.
//!
//! A call inside an operation that cannot be interrupted does not reach `go_on`. Its watcher makes it a slow call
//! ([`ScheduledCall::make_slow`]). A call that waits for memory makes itself slow ([`SlowQueryScheduler::pause`]).
//!
//! A call may compute in the main thread of another process while its thread waits ([`SlowQueryScheduler::computes_in`]). The
//! processor time of that process then counts too, and its priority is lowered instead of the thread's.
//!
//! A slow call that waits for its client computes nothing and delays no other call. A call is refused when there are too many slow
//! calls, or if it is slow from its beginning and gets no place in time ([`SlowPlaces`]): the server is overloaded.

mod call;
mod process;
mod shapes;
mod turns;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::ports::CancellationToken;

pub(crate) use self::call::run;
use self::call::{CallPermit, ThreadCall};
pub use self::call::{ScheduledCall, idle};
use self::process::ComputingProcess;
use self::shapes::{CountedTime, Shapes};
use self::turns::Turns;
use crate::priority;

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
    /// Limit of slow calls that have begun. `None` if slow calls hold nothing that short ones need.
    pub places: Option<SlowPlaces>,
    /// Maximum wait for a place.
    pub max_wait: Duration,
    /// Length of a turn while other slow calls wait.
    pub turn: Duration,
}

/// A limit of slow calls that have begun, for calls that hold something scarce from then on, such as a worker process. A call that is
/// slow from its beginning waits for a place before its first turn. A call that becomes slow later has begun, and needs none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowPlaces {
    /// Number of places.
    pub most: usize,
    /// How many of the places are kept for callers with few slow calls: a caller gets one of them only if it has fewer slow calls
    /// than there are free places. Otherwise the slow calls of one caller could keep those of all others waiting.
    pub spare: usize,
}

impl Default for SlowQueryLimits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            slow_after: Duration::from_millis(50),
            max_computing: cores,
            max_calls: 64,
            places: None,
            max_wait: Duration::from_secs(5),
            turn: Duration::from_millis(500),
        }
    }
}

/// The scheduler of slow calls. Clones share their state.
#[derive(Clone)]
pub struct SlowQueryScheduler(Arc<SharedScheduler>);

struct SharedScheduler {
    slow_after: Duration,
    turns: Turns,
    shapes: Arc<Shapes>,
}

impl SlowQueryScheduler {
    /// Creates a scheduler with these limits.
    pub fn new(limits: SlowQueryLimits) -> Self {
        let slow_after = limits.slow_after;
        Self(Arc::new(SharedScheduler { slow_after, turns: Turns::new(limits), shapes: Arc::new(Shapes::new()) }))
    }

    /// Announces a statement of this shape. Call it on the thread of the call before the statement begins. Returns [`ControlFlow::Break`]
    /// if the call is refused or canceled. Calls outside a pool always continue.
    ///
    /// If the call becomes slow here, the priority of its thread, or of its process, is lowered later, when it is known to compute
    /// there for long: in [`SlowQueryScheduler::go_on`] or [`ScheduledCall::make_slow`]. A short call of a slow shape thus costs no
    /// process.
    pub fn begin(&self, shape: u64, canceled: &CancellationToken) -> ControlFlow<()> {
        let Some(mut call) = ThreadCall::take() else { return ControlFlow::Continue(()) };
        call.shape = Some(shape);
        let flow = if self.0.shapes.are_slow(shape) {
            self.take_turn(&mut call, canceled, false)
        } else {
            ControlFlow::Continue(())
        };
        call.put_back();
        flow
    }

    /// Returns `true` if statements of this shape were slow recently, so that [`SlowQueryScheduler::begin`] would wait for a turn.
    pub fn is_slow(&self, shape: u64) -> bool {
        self.0.shapes.are_slow(shape)
    }

    /// Checks whether the call may continue to compute, and waits for a turn if it is slow. Call it at intervals on the thread of
    /// the call. Returns [`ControlFlow::Break`] if the call is refused or canceled. Calls outside a pool always continue.
    pub fn go_on(&self, canceled: &CancellationToken) -> ControlFlow<()> {
        let Some(mut call) = ThreadCall::take() else { return ControlFlow::Continue(()) };
        let is_short = matches!(call.shared.state.lock().permit, CallPermit::Short(_));
        let is_slow = !is_short || self.has_become_slow(&mut call);
        let flow = if is_slow {
            // From here on, short calls precede this one at the processor.
            self.take_turn(&mut call, canceled, true)
        } else {
            ControlFlow::Continue(())
        };
        call.put_back();
        flow
    }

    /// Prepares a call for a wait for resources that slow calls hold. Call it on the thread of the call before the wait. A short
    /// call becomes slow and releases its slot; a slow call ends its turn. The call has its next turn when it asks for one.
    /// Returns [`ControlFlow::Break`] if there are too many slow calls.
    pub fn pause(&self) -> ControlFlow<()> {
        let Some(shared) = ThreadCall::current() else { return ControlFlow::Continue(()) };
        let mut state = shared.state.lock();
        match &mut state.permit {
            CallPermit::Slow(slow) => slow.end_turn(),
            CallPermit::Ended => {}
            CallPermit::Short(slot) => {
                let Some(slow) = self.0.turns.join_paused(slot.caller()) else { return ControlFlow::Break(()) };
                state.permit = CallPermit::Slow(slow);
                state.lower(priority::lower);
            }
        }
        ControlFlow::Continue(())
    }

    /// Announces that the call computes in the main thread of the process with this id until [`SlowQueryScheduler::returned`]. Call it
    /// on the thread of the call. From now on, the processor time of that thread also counts as used by the call, by the kernel's
    /// figure; if the figure cannot be read, the time that passes counts. If the call is slow or becomes slow, the priority of the
    /// process is lowered instead of that of the call's own thread. Processor time in several processes adds up.
    ///
    /// The process must not be reaped before `returned`, because another process may then get its id. Does nothing outside a pool. On
    /// systems other than Linux, the time that passes counts and no priority is lowered.
    pub fn computes_in(&self, process: u32) {
        let Some(shared) = ThreadCall::current() else { return };
        let process = ComputingProcess::new(process);
        shared.state.lock().move_to(Some(process));
    }

    /// Announces that the call computes on its thread again. Call it on the thread of the call. Afterwards, the scheduler does not touch
    /// the process. Returns `true` if the priority of the process was lowered. The caller should then end the process, because its
    /// priority cannot be raised again without a privilege. Returns `false` if the call computed in no process, and outside a pool.
    pub fn returned(&self) -> bool {
        let Some(shared) = ThreadCall::current() else { return false };
        let former = shared.state.lock().move_to(None);
        former.is_some_and(|process| process.is_lowered())
    }

    /// Returns a handle to the call of this thread, or `None` if the thread runs no call of a pool.
    pub fn call(&self) -> Option<ScheduledCall> {
        let shared = ThreadCall::current()?;
        Some(ScheduledCall { scheduler: self.clone(), shared })
    }

    fn has_become_slow(&self, call: &mut ThreadCall) -> bool {
        let SharedScheduler { slow_after, shapes, .. } = &*self.0;
        let used = call.used();
        let Some(shape) = call.shape else { return used >= *slow_after };
        let counted = call.counted.get_or_insert_with(|| CountedTime::new(Arc::clone(shapes), shape));
        if counted.count(used) >= *slow_after {
            shapes.record_slow(shape);
            return true;
        }
        shapes.are_slow(shape)
    }

    /// Makes a short call slow, lowers what computes for it if `has_begun`, and waits for a turn.
    fn take_turn(&self, call: &mut ThreadCall, canceled: &CancellationToken, has_begun: bool) -> ControlFlow<()> {
        let mut state = call.shared.state.lock();
        call.counted = None;
        if let CallPermit::Short(slot) = &state.permit {
            let Some(slow) = self.0.turns.join_queue(slot.caller(), has_begun) else { return ControlFlow::Break(()) };
            // From here on, the slot of this call is free for the next one.
            state.permit = CallPermit::Slow(slow);
        }
        if has_begun {
            state.lower(priority::lower);
        }
        match &mut state.permit {
            CallPermit::Slow(slow) => slow.take_turn(canceled),
            CallPermit::Short(_) | CallPermit::Ended => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod models;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod process_tests;
#[cfg(test)]
mod tests;
