//! The call that runs on a thread, and its permit.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::SlowQueryScheduler;
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
    pub(super) permit: Arc<SharedPermit>,
    /// Processor time of the thread when the call began.
    began: Duration,
    pub(super) shape: Option<u64>,
    pub(super) counted: Option<CountedTime>,
}

/// The permit of a call, which another thread may replace.
pub(super) struct SharedPermit {
    pub(super) state: Mutex<CallPermit>,
    thread: OsThread,
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

    /// Returns the permit of the call of this thread.
    pub(super) fn current_permit() -> Option<Arc<SharedPermit>> {
        CALL.with_borrow(|call| call.as_ref().map(|call| Arc::clone(&call.permit)))
    }

    /// Returns the processor time that the call has used.
    pub(super) fn used(&self) -> Duration {
        computed().saturating_sub(self.began)
    }
}

impl SharedPermit {
    /// Releases the permit. Afterwards, [`ScheduledCall::make_slow`] does not touch the thread, which may already run another call.
    fn end(&self) {
        let mut permit = self.state.lock();
        if matches!(*permit, CallPermit::Slow(_)) {
            priority::mark_as_lowered();
        }
        *permit = CallPermit::Ended;
    }
}

/// A handle with which another thread makes a call slow.
pub struct ScheduledCall {
    pub(super) scheduler: SlowQueryScheduler,
    pub(super) permit: Arc<SharedPermit>,
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
    pub fn make_slow(&self) {
        // A locked permit means that the call waits for a permit or a turn. A call that waits for its client must not get a turn
        // either: other slow calls would wait as long as the client does.
        let Some(mut permit) = self.permit.state.try_lock() else { return };
        if let CallPermit::Short(slot) = &*permit
            && slot.computes()
            && let Some(slow) = self.scheduler.0.turns.join_computing()
        {
            *permit = CallPermit::Slow(slow);
            // While the permit is locked, the thread still runs this call.
            self.permit.thread.lower();
        }
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
    /// Ends the call even if it panics, because the thread lives on.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            if let Some(call) = CALL.take() {
                call.permit.end();
            }
        }
    }
    let permit = Arc::new(SharedPermit { state: Mutex::new(CallPermit::Short(slot)), thread: OsThread::current() });
    CALL.set(Some(ThreadCall { permit, began: computed(), shape: None, counted: None }));
    let _end = End;
    work()
}

/// Runs `wait`, which waits for a client, while other calls may compute. Afterwards, blocks a short call until it may compute
/// again. A slow call ends its turn and waits for another one in its next [`SlowQueryScheduler::go_on`].
pub fn idle<T>(wait: impl FnOnce() -> T) -> T {
    let Some(permit) = ThreadCall::current_permit() else { return wait() };
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
