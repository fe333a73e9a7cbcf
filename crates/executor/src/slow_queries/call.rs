//! The call that runs on a thread, its permit, and where it computes.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::SlowQueryScheduler;
use super::process::ComputingProcess;
use super::shapes::CountedTime;
use super::turns::SlowPermit;
use crate::pool::PoolSlot;
use crate::priority;
use crate::sync::{Mutex, OsThread, thread_local};

thread_local! {
    static CALL: RefCell<Option<ThreadCall>> = const { RefCell::new(None) };
}

/// The call that runs on this thread.
pub(super) struct ThreadCall {
    pub(super) shared: Arc<SharedCall>,
    /// Processor time of the thread when the call began.
    began: Duration,
    pub(super) shape: Option<u64>,
    pub(super) counted: Option<CountedTime>,
}

/// What another thread may change about a call.
pub(super) struct SharedCall {
    pub(super) state: Mutex<CallState>,
    thread: OsThread,
}

/// The permit of a call, and where the call computes.
pub(super) struct CallState {
    pub(super) permit: CallPermit,
    /// The process in which the call computes. `None` if it computes on its thread.
    pub(super) process: Option<ComputingProcess>,
    /// Time that counts for processes in which the call computed before.
    past_processes: Duration,
    /// `true` if the priority of the call's thread was lowered.
    thread_is_lowered: bool,
}

/// What a call holds, by its state.
pub(super) enum CallPermit {
    Short(PoolSlot),
    Slow(SlowPermit),
    /// The call has ended.
    Ended,
}

impl ThreadCall {
    /// Takes the call off this thread while a function works on it. Returns `None` if the thread runs no call of a pool.
    pub(super) fn take() -> Option<Self> {
        CALL.take()
    }

    pub(super) fn put_back(self) {
        CALL.set(Some(self));
    }

    /// Returns what the call of this thread shares with other threads.
    pub(super) fn current() -> Option<Arc<SharedCall>> {
        CALL.with_borrow(|call| call.as_ref().map(|call| Arc::clone(&call.shared)))
    }

    /// Returns the processor time that the call has used on its thread and in processes.
    pub(super) fn used(&self) -> Duration {
        let in_processes = self.shared.state.lock().used_in_processes();
        computed().saturating_sub(self.began) + in_processes
    }
}

impl SharedCall {
    fn new(slot: PoolSlot) -> Self {
        let state = CallState {
            permit: CallPermit::Short(slot),
            process: None,
            past_processes: Duration::ZERO,
            thread_is_lowered: priority::is_lowered(),
        };
        Self { state: Mutex::new(state), thread: OsThread::current() }
    }

    /// Releases the permit. Afterwards, [`ScheduledCall::make_slow`] touches neither the thread, which may already run another call,
    /// nor a process.
    fn end(&self) {
        let mut state = self.state.lock();
        if state.thread_is_lowered {
            priority::mark_as_lowered();
        }
        state.process = None;
        state.permit = CallPermit::Ended;
    }
}

impl CallState {
    /// Lowers the priority of the process in which the call computes, or of the call's thread by `lower_thread`. Each is lowered once.
    pub(super) fn lower(&mut self, lower_thread: impl FnOnce()) {
        if let Some(process) = &mut self.process {
            process.lower();
        } else if !self.thread_is_lowered {
            self.thread_is_lowered = true;
            lower_thread();
        }
    }

    /// Replaces the process in which the call computes. Returns the former one.
    pub(super) fn move_to(&mut self, process: Option<ComputingProcess>) -> Option<ComputingProcess> {
        self.past_processes = self.used_in_processes();
        std::mem::replace(&mut self.process, process)
    }

    fn used_in_processes(&self) -> Duration {
        self.past_processes + self.process.as_ref().map_or(Duration::ZERO, ComputingProcess::used)
    }
}

/// A handle with which another thread makes a call slow.
pub struct ScheduledCall {
    pub(super) scheduler: SlowQueryScheduler,
    pub(super) shared: Arc<SharedCall>,
}

impl fmt::Debug for ScheduledCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ScheduledCall").finish_non_exhaustive()
    }
}

impl ScheduledCall {
    /// Makes a short call that computes slow and grants it a turn at once. Its slot becomes free for the next call. Does nothing if
    /// the call waits for its client, or if there are too many slow calls. For a call that cannot reach
    /// [`SlowQueryScheduler::go_on`]. Does not block.
    ///
    /// Lowers the priority of the process in which the call computes, or else of its thread, also if the call is slow from its
    /// beginning ([`SlowQueryScheduler::begin`]).
    pub fn make_slow(&self) {
        // A locked state means that the call waits for a permit or a turn. A call that waits for its client must not get a turn
        // either: other slow calls would wait as long as the client does.
        let Some(mut state) = self.shared.state.try_lock() else { return };
        match &state.permit {
            CallPermit::Short(slot) if slot.computes() => {
                let Some(slow) = self.scheduler.0.turns.join_computing(slot.caller()) else { return };
                state.permit = CallPermit::Slow(slow);
            }
            CallPermit::Slow(_) => {}
            CallPermit::Short(_) | CallPermit::Ended => return,
        }
        // While the state is locked, the thread still runs this call, and the process has not been returned.
        state.lower(|| self.shared.thread.lower());
    }
}

/// Returns the processor time of this thread.
pub(super) fn computed() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(used.tv_sec), u32::try_from(used.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

/// Runs a call that holds a slot.
pub(crate) fn run<T>(slot: PoolSlot, work: impl FnOnce() -> T) -> T {
    let _end = begin(slot);
    work()
}

/// Ends the call of this thread even if it panics, because the thread lives on.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        end();
    }
}

/// Begins a call on this thread. Not generic, so that it is compiled once and not for each kind of call; [`end`] neither.
fn begin(slot: PoolSlot) -> End {
    let shared = Arc::new(SharedCall::new(slot));
    CALL.set(Some(ThreadCall { shared, began: computed(), shape: None, counted: None }));
    End
}

#[inline(never)]
fn end() {
    if let Some(call) = CALL.take() {
        call.shared.end();
    }
}

/// Runs `wait`, which waits for a client, while other calls may compute. Afterwards, blocks a short call until it may compute
/// again. A slow call ends its turn and waits for another one in its next [`SlowQueryScheduler::go_on`].
pub fn idle<T>(wait: impl FnOnce() -> T) -> T {
    let Some(shared) = ThreadCall::current() else { return wait() };
    match &mut shared.state.lock().permit {
        CallPermit::Short(slot) => slot.pause(),
        CallPermit::Slow(slow) => slow.end_turn(),
        CallPermit::Ended => {}
    }
    let result = wait();
    if let CallPermit::Short(slot) = &mut shared.state.lock().permit {
        slot.resume();
    }
    result
}
