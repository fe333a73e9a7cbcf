//! Back-pressure: limits on the number of requests that compute, on the number of waiting requests and on their wait.
//!
//! A request holds a slot while it computes. One that has held its slot for [`LONG_AFTER`] while others wait leaves the slot
//! to them and goes on in the lane of long requests. As many long requests compute as there are slots, in turns, so that a
//! few long statements delay each other and not the short ones.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Context;
use std::time::{Duration, Instant};

use branchyard_domain::ports::CancellationToken;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Maximum number of waiting requests per slot.
const WAITING_PER_THREAD: usize = 10;
/// Maximum number of waiting requests, if there are so few slots that it would be lower.
const WAITING_AT_LEAST: usize = 100;
/// Time after which a request leaves its slot to waiting ones.
const LONG_AFTER: Duration = Duration::from_millis(250);
/// Maximum number of long requests. Each holds a thread. A further one keeps its slot.
pub(super) const MOST_LONG: usize = 8;
/// Interval at which a waiting long request looks for its cancellation.
const LOOK: Duration = Duration::from_millis(50);

/// The slots for running requests, and the lane of long ones.
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    /// Requests that wait within the limit.
    waiting: AtomicUsize,
    most_waiting: usize,
    /// All requests that wait for a slot.
    wanted: AtomicUsize,
    long: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    /// Long requests that wait for a turn.
    turns_wanted: AtomicUsize,
}

/// Where a request computes.
enum Place {
    Slot(#[expect(dead_code, reason = "held until the request leaves the slot")] OwnedSemaphorePermit),
    Lane {
        #[expect(dead_code, reason = "held until the request ends")]
        place: OwnedSemaphorePermit,
        turn: Option<OwnedSemaphorePermit>,
    },
    Nowhere,
}

/// A request that computes.
pub(crate) struct RunningSlot {
    slots: Arc<Slots>,
    since: Instant,
    /// Whether the request holds the write turn of its database. It then never waits for a turn of its lane, because others
    /// wait for it.
    writes: AtomicBool,
    place: Mutex<Place>,
}

/// A permit to run statements until it is dropped.
pub(crate) struct RunPermit(Arc<RunningSlot>);

impl Drop for RunPermit {
    fn drop(&mut self) {
        *self.0.place.lock() = Place::Nowhere;
    }
}

thread_local! {
    /// The request that computes on this thread.
    static HERE: RefCell<Option<Arc<RunningSlot>>> = const { RefCell::new(None) };
}

/// Ends the association of this thread with a request when it is dropped.
pub(crate) struct OnThisThread(());

impl Drop for OnThisThread {
    fn drop(&mut self) {
        HERE.with_borrow_mut(|here| *here = None);
    }
}

struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(counter: &'a AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::AcqRel);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Slots {
    pub(crate) fn new(at_once: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(at_once)),
            waiting: AtomicUsize::new(0),
            most_waiting: (at_once * WAITING_PER_THREAD).max(WAITING_AT_LEAST),
            wanted: AtomicUsize::new(0),
            long: Arc::new(Semaphore::new(MOST_LONG)),
            turns: Arc::new(Semaphore::new(at_once)),
            turns_wanted: AtomicUsize::new(0),
        }
    }

    /// Waits for a slot. Returns `None` if too many requests are waiting, or if the wait takes too long.
    pub(crate) async fn enter(self: &Arc<Self>) -> Option<RunPermit> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(self.permit(permit));
        }
        let _waits = Counted::new(&self.waiting);
        if self.waiting.load(Ordering::Acquire) > self.most_waiting {
            return None;
        }
        tokio::time::timeout(LONGEST_WAIT, self.enter_again()).await.ok().flatten()
    }

    /// Waits for a slot without a limit, for a request that is already running.
    pub(crate) async fn enter_again(self: &Arc<Self>) -> Option<RunPermit> {
        let _wants = Counted::new(&self.wanted);
        // The semaphore is never closed.
        Arc::clone(&self.free).acquire_owned().await.ok().map(|permit| self.permit(permit))
    }

    fn permit(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> RunPermit {
        RunPermit(Arc::new(RunningSlot {
            slots: Arc::clone(self),
            since: Instant::now(),
            writes: AtomicBool::new(false),
            place: Mutex::new(Place::Slot(permit)),
        }))
    }
}

impl RunPermit {
    /// Makes the statements of this thread those of the request, until the result is dropped or another request is.
    pub(crate) fn on_this_thread(&self) -> OnThisThread {
        HERE.with_borrow_mut(|here| *here = Some(Arc::clone(&self.0)));
        OnThisThread(())
    }

    /// Records whether the request holds the write turn of its database.
    pub(crate) fn set_writes(&self, writes: bool) {
        self.0.writes.store(writes, Ordering::Relaxed);
    }
}

/// Returns the request that computes on this thread.
pub(crate) fn here() -> Option<Arc<RunningSlot>> {
    HERE.with_borrow(Clone::clone)
}

impl RunningSlot {
    /// Leaves the slot to waiting requests if this one has held it for long. Returns `true` if the request is long.
    pub(crate) fn leave_if_long(&self) -> bool {
        let mut place = self.place.lock();
        let is_wanted = self.slots.wanted.load(Ordering::Acquire) > 0;
        if matches!(*place, Place::Slot(_))
            && is_wanted
            && self.since.elapsed() >= LONG_AFTER
            && let Ok(lane) = Arc::clone(&self.slots.long).try_acquire_owned()
        {
            *place = Place::Lane { place: lane, turn: None };
        }
        matches!(*place, Place::Lane { .. })
    }

    /// Called on the thread of the request between two parts of its work. A long request waits here for its turn. Breaks if
    /// the request was canceled meanwhile.
    pub(crate) fn go_on(&self, canceled: &CancellationToken) -> ControlFlow<()> {
        if !self.leave_if_long() || self.writes.load(Ordering::Relaxed) {
            return ControlFlow::Continue(());
        }
        {
            let mut place = self.place.lock();
            let Place::Lane { turn, .. } = &mut *place else { return ControlFlow::Continue(()) };
            if turn.is_some() && self.slots.turns_wanted.load(Ordering::Acquire) == 0 {
                return ControlFlow::Continue(());
            }
            *turn = None;
        }
        let Some(next) = self.wait_for_turn(canceled) else { return ControlFlow::Break(()) };
        if let Place::Lane { turn, .. } = &mut *self.place.lock() {
            *turn = Some(next);
        }
        ControlFlow::Continue(())
    }

    /// Waits for a turn, in the order of arrival. Returns `None` if the request was canceled.
    fn wait_for_turn(&self, canceled: &CancellationToken) -> Option<OwnedSemaphorePermit> {
        let _wants = Counted::new(&self.slots.turns_wanted);
        let mut turn = pin!(Arc::clone(&self.slots.turns).acquire_owned());
        let runtime = Handle::try_current().ok()?;
        while !canceled.is_canceled() {
            let look = std::future::poll_fn(|context: &mut Context<'_>| turn.as_mut().poll(context).map(Result::ok));
            if let Ok(found) = runtime.block_on(async { tokio::time::timeout(LOOK, look).await }) {
                return found;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn few_run_some_wait_and_the_rest_is_refused() {
        for (at_once, most) in [(1, 100), (10, 100), (11, 110)] {
            let slots = Arc::new(Slots::new(at_once));
            let mut held = Vec::new();
            for _ in 0..at_once {
                held.push(slots.enter().await.unwrap());
            }
            let waiting: Vec<_> = (0..most)
                .map(|_| {
                    let slots = Arc::clone(&slots);
                    tokio::spawn(async move { slots.enter().await.is_some() })
                })
                .collect();
            tokio::time::sleep(Duration::from_millis(10)).await;
            let began = tokio::time::Instant::now();
            assert!(slots.enter().await.is_none(), "one more than may wait");
            assert_eq!(began.elapsed(), Duration::ZERO);
            held.clear();
            for waited in waiting {
                assert!(waited.await.unwrap());
            }
        }
        let slots = Arc::new(Slots::new(1));
        let _held = slots.enter().await.unwrap();
        let began = tokio::time::Instant::now();
        assert!(slots.enter().await.is_none());
        assert_eq!(began.elapsed(), LONGEST_WAIT);
    }

    /// Computes on a thread of the runtime until `stop`, and returns the number of parts computed.
    fn compute(permit: RunPermit, writes: bool, stop: &Arc<AtomicBool>) -> tokio::task::JoinHandle<usize> {
        let stop = Arc::clone(stop);
        tokio::task::spawn_blocking(move || {
            let _here = permit.on_this_thread();
            permit.set_writes(writes);
            let (slot, canceled, mut parts) = (here().unwrap(), CancellationToken::default(), 0);
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
                assert!(slot.go_on(&canceled).is_continue());
                parts += 1;
            }
            parts
        })
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn long_requests_leave_their_slot_and_compute_in_turns() {
        let slots = Arc::new(Slots::new(1));
        let stop = Arc::new(AtomicBool::new(false));
        let mut long = Vec::new();
        for number in 0..MOST_LONG {
            long.push(compute(slots.enter().await.expect("a slot"), number == 0, &stop));
        }
        // All of them left the only slot, so that a short request need not wait for their end.
        drop(slots.enter().await.expect("a slot"));
        assert_eq!(slots.long.available_permits(), 0);
        assert_eq!(slots.turns.available_permits(), 0);
        // One more long request keeps its slot.
        let one_more = compute(slots.enter().await.unwrap(), false, &stop);
        assert!(slots.enter().await.is_none());
        tokio::time::sleep(Duration::from_millis(500)).await;
        stop.store(true, Ordering::Relaxed);
        for computed in long {
            assert!(computed.await.unwrap() > 1, "a long request never had its turn");
        }
        one_more.await.unwrap();
        assert_eq!((slots.long.available_permits(), slots.turns.available_permits()), (MOST_LONG, 1));
        assert!(here().is_none());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_canceled_request_stops_waiting_for_its_turn() {
        let slots = Arc::new(Slots::new(1));
        let stop = Arc::new(AtomicBool::new(false));
        let first = compute(slots.enter().await.unwrap(), false, &stop);
        let second = slots.enter().await.expect("the first one left its slot");
        let canceled = CancellationToken::default();
        let token = canceled.clone();
        let waits = tokio::task::spawn_blocking(move || {
            let _here = second.on_this_thread();
            let slot = here().unwrap();
            std::thread::sleep(LONG_AFTER);
            while slot.go_on(&token).is_continue() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let third = slots.enter().await.expect("the second one left its slot too");
        canceled.cancel();
        waits.await.unwrap();
        stop.store(true, Ordering::Relaxed);
        first.await.unwrap();
        drop(third);
    }
}
