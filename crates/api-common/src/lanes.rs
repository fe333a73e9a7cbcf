//! Calls that compute for long, apart from the short ones: so many of them at once as there are places, whatever there is to do.
//!
//! Every call begins in the short lane, with the place its [`Pool`](crate::Pool) gave it. Once it has computed for a while the engine asks
//! [`LongLane::enter`] on its thread; the call leaves its place to the next one and takes turns with the other long ones. A long call that waits for its
//! client computes nothing and holds up nobody. When there are too many, or a turn is too long in coming, the call is refused: the server is overloaded.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use branchyard_domain::ports::{Canceled, Flow};
use tokio::sync::OwnedSemaphorePermit;

/// How often one who waits looks whether anybody still wants its result.
const LOOK: Duration = Duration::from_millis(50);

/// How many long calls there may be.
#[derive(Debug, Clone)]
pub struct LongLaneSizes {
    /// Long calls that compute at once.
    pub places: usize,
    /// Long calls there are at once: those that compute, wait for their turn, or for their client.
    pub calls: usize,
    /// How long one waits for its first turn.
    pub wait: Duration,
    /// How long a turn lasts when others wait.
    pub turn: Duration,
}

impl Default for LongLaneSizes {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { places: cores, calls: 64, wait: Duration::from_secs(5), turn: Duration::from_millis(500) }
    }
}

/// The lane of long calls. Clones are the same lane.
#[derive(Clone)]
pub struct LongLane(Arc<Lane>);

struct Lane {
    sizes: LongLaneSizes,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    calls: usize,
    computing: usize,
    waiting: VecDeque<u64>,
    next: u64,
}

thread_local! {
    static CALL: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// Where the call of this thread is.
enum Place {
    Short(OwnedSemaphorePermit),
    Long(Stay),
}

/// One of the long calls.
struct Stay {
    lane: LongLane,
    turn_began: Option<Instant>,
}

/// Runs a call that holds a place.
pub(crate) fn run<T>(place: OwnedSemaphorePermit, work: impl FnOnce() -> T) -> T {
    /// Also when the call panics: the thread lives on.
    struct Left;
    impl Drop for Left {
        fn drop(&mut self) {
            CALL.take();
        }
    }
    CALL.set(Some(Place::Short(place)));
    let _left = Left;
    work()
}

/// Runs something that waits for a client; a long call takes up no place meanwhile.
pub(crate) fn idle<T>(wait: impl FnOnce() -> T) -> T {
    CALL.with_borrow_mut(|call| {
        if let Some(Place::Long(stay)) = call {
            stay.end_turn();
        }
    });
    wait()
}

impl LongLane {
    /// A lane.
    pub fn new(sizes: LongLaneSizes) -> Self {
        Self(Arc::new(Lane { sizes, state: Mutex::default(), changed: Condvar::new() }))
    }

    /// To be asked by a call on its own thread whenever it has computed for a while. Calls that did not come through a pool may go on.
    pub fn enter(&self, canceled: &Canceled) -> Flow {
        let stay = match CALL.take() {
            None => return Flow::Continue,
            Some(Place::Long(stay)) => Some(stay),
            Some(Place::Short(place)) => {
                drop(place);
                self.join()
            }
        };
        let Some(mut stay) = stay else { return Flow::Stop };
        let flow = stay.take_turn(canceled);
        CALL.set(Some(Place::Long(stay)));
        flow
    }

    fn join(&self) -> Option<Stay> {
        let mut state = self.lock();
        if state.calls >= self.0.sizes.calls {
            return None;
        }
        state.calls += 1;
        drop(state);
        Some(Stay { lane: self.clone(), turn_began: None })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn free_place(&self) {
        self.lock().computing -= 1;
        self.0.changed.notify_all();
    }
}

impl Stay {
    /// Goes on with its turn, or waits for one.
    fn take_turn(&mut self, canceled: &Canceled) -> Flow {
        if let Some(began) = self.turn_began {
            let others_wait = !self.lane.lock().waiting.is_empty();
            if !others_wait || began.elapsed() < self.lane.0.sizes.turn {
                return Flow::Continue;
            }
            self.end_turn();
            return self.wait_for_turn(canceled, None);
        }
        let until = Instant::now() + self.lane.0.sizes.wait;
        self.wait_for_turn(canceled, Some(until))
    }

    fn wait_for_turn(&mut self, canceled: &Canceled, until: Option<Instant>) -> Flow {
        let lane = &self.lane.0;
        let mut state = self.lane.lock();
        let ticket = state.next;
        state.next += 1;
        state.waiting.push_back(ticket);
        let flow = loop {
            if state.computing < lane.sizes.places && state.waiting.front() == Some(&ticket) {
                state.computing += 1;
                self.turn_began = Some(Instant::now());
                break Flow::Continue;
            }
            if canceled.is_canceled() || until.is_some_and(|until| Instant::now() >= until) {
                break Flow::Stop;
            }
            state = lane.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        };
        state.waiting.retain(|waiting| *waiting != ticket);
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

impl Drop for Stay {
    fn drop(&mut self) {
        self.end_turn();
        self.lane.lock().calls -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use branchyard_domain::ports::{Canceled, Flow};
    use tokio::sync::Semaphore;

    use super::{LongLane, LongLaneSizes, idle, run};

    fn lane(places: usize, calls: usize) -> LongLane {
        let (wait, turn) = (Duration::from_millis(60), Duration::from_millis(1));
        LongLane::new(LongLaneSizes { places, calls, wait, turn })
    }

    fn is_empty(lane: &LongLane) -> bool {
        let state = lane.lock();
        state.calls == 0 && state.computing == 0 && state.waiting.is_empty()
    }

    /// Runs `work` as a call that came through a pool of its own.
    fn call<T>(work: impl FnOnce() -> T) -> T {
        run(Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap(), work)
    }

    #[test]
    fn a_long_call_leaves_its_place_to_the_next() {
        let (lane, pool) = (lane(1, 1), Arc::new(Semaphore::new(1)));
        run(Arc::clone(&pool).try_acquire_owned().unwrap(), || {
            assert_eq!(pool.available_permits(), 0);
            assert_eq!(lane.enter(&Canceled::default()), Flow::Continue);
            assert_eq!(pool.available_permits(), 1);
        });
        assert!(is_empty(&lane));
    }

    #[test]
    fn calls_past_the_limit_are_refused_at_once() {
        let lane = lane(1, 1);
        call(|| {
            assert_eq!(lane.enter(&Canceled::default()), Flow::Continue);
            let refused = thread::scope(|scope| scope.spawn(|| call(|| lane.enter(&Canceled::default()))).join());
            assert_eq!(refused.unwrap(), Flow::Stop);
        });
    }

    #[test]
    fn a_first_turn_that_does_not_come_in_time_is_refused_and_an_unwanted_call_ends() {
        let lane = lane(1, 8);
        call(|| {
            assert_eq!(lane.enter(&Canceled::default()), Flow::Continue);
            let late = thread::scope(|scope| scope.spawn(|| call(|| lane.enter(&Canceled::default()))).join());
            assert_eq!(late.unwrap(), Flow::Stop);
            let canceled = Canceled::default();
            canceled.cancel();
            let unwanted = thread::scope(|scope| scope.spawn(|| call(|| lane.enter(&canceled))).join());
            assert_eq!(unwanted.unwrap(), Flow::Stop);
        });
        assert!(is_empty(&lane));
    }

    #[test]
    fn long_calls_take_turns_and_one_that_waits_for_its_client_holds_up_nobody() {
        let lane = lane(1, 8);
        let (entered, was_entered) = mpsc::channel();
        thread::scope(|scope| {
            call(|| {
                assert_eq!(lane.enter(&Canceled::default()), Flow::Continue);
                scope.spawn(|| {
                    call(|| {
                        entered.send(lane.enter(&Canceled::default())).unwrap();
                        // Keeps its turn only until the first one asks again.
                        while lane.lock().waiting.is_empty() {
                            thread::yield_now();
                        }
                        thread::sleep(Duration::from_millis(2));
                        assert_eq!(idle(|| lane.enter(&Canceled::default())), Flow::Continue);
                    });
                });
                idle(|| assert_eq!(was_entered.recv().unwrap(), Flow::Continue));
                assert_eq!(lane.enter(&Canceled::default()), Flow::Continue);
            });
        });
        assert!(is_empty(&lane));
    }

    #[test]
    fn what_did_not_come_through_a_pool_goes_on() {
        assert_eq!(lane(0, 0).enter(&Canceled::default()), Flow::Continue);
    }
}
