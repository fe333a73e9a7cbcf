//! Bounded pools for blocking calls, so that the server's workers never block.

mod queue;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

pub use self::queue::FairShares;
use self::queue::PoolState;
use crate::caller_key::CallerKey;
use crate::slow_queries;
use crate::sync::{Condvar, Mutex, timeout};
use crate::threads::Threads;

/// The reason why a call did not run or has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The queue is full, or no thread could be started.
    #[error("the queue is full")]
    Full,
    /// No slot became free within the maximum wait.
    #[error("no slot got free in time")]
    TooLong,
    /// The caller already has this many calls in the queue, the most that one caller may have there ([`FairShares::queued`]).
    #[error("{0} calls of this caller wait already")]
    CallerQueueFull(usize),
    /// The calls of the caller used up its share of the slots when the maximum wait ended ([`FairShares`]).
    #[error("the caller's share of the slots is in use")]
    ShareInUse,
    /// The call panicked.
    #[error("the call was lost")]
    Lost,
}

/// A fixed number of slots for blocking calls, with a bounded queue. When a slot becomes free, the queued caller with the fewest
/// calls in progress is next. A caller with many calls therefore does not delay the others. [`Pool::shared_fairly`] also limits how
/// many slots a caller takes.
#[derive(Clone)]
pub struct Pool {
    threads: Threads,
    shared: Arc<SharedPool>,
    wait: Duration,
}

struct SharedPool {
    size: usize,
    state: Mutex<PoolState>,
}

/// What an admitted call receives.
type Admitted = (PoolSlot, RunningCall);

/// The resources of a short call: a slot, and a permit to compute while the call does not wait for its client.
pub(crate) struct PoolSlot {
    shared: Arc<SharedPool>,
    caller: CallerKey,
    has_permit: bool,
}

/// A permit on its way to a call that waits in [`PoolSlot::resume`].
#[derive(Default)]
struct Grant {
    is_given: Mutex<bool>,
    changed: Condvar,
}

/// A running call, short or slow, which counts toward its caller's load until it is dropped.
pub struct RunningCall {
    shared: Arc<SharedPool>,
    caller: CallerKey,
}

/// A call that has a slot and a permit to compute, and no thread yet. Dropping it releases both.
pub struct AdmittedCall {
    pool: Pool,
    slot: PoolSlot,
    running: RunningCall,
}

impl AdmittedCall {
    /// Runs the rest of the call as [`Pool::run`] does. The call counts as in progress of its caller until the returned handle is
    /// dropped.
    ///
    /// # Errors
    /// [`PoolError::Lost`] if the call panicked, [`PoolError::Full`] if no thread could be started.
    pub async fn run_and_hold<T, F>(self, work: F) -> Result<(T, RunningCall), PoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let Self { pool, slot, running } = self;
        pool.run_admitted((slot, running), |slot, running| (slow_queries::run(slot, work), running)).await
    }

    /// Runs the rest of the call, for which no one waits.
    pub fn run_detached(self, work: impl FnOnce() + Send + 'static) {
        let Self { pool, slot, running } = self;
        pool.threads.run(move || {
            let _running = running;
            slow_queries::run(slot, work);
        });
    }

    /// Runs the rest of the call on this thread. `work` must not wait and has to be short.
    ///
    /// # Errors
    /// [`PoolError::Lost`] if the call panicked.
    pub fn run_here<T>(self, work: impl FnOnce() -> T) -> Result<(T, RunningCall), PoolError> {
        let Self { slot, running, .. } = self;
        let ended = catch_unwind(AssertUnwindSafe(work)).map_err(|_| PoolError::Lost)?;
        drop(slot);
        Ok((ended, running))
    }
}

/// The place of a call in the queue. Dropping it removes the call, if it still waits.
struct QueuePlace {
    shared: Arc<SharedPool>,
    number: u64,
}

impl PoolSlot {
    /// Returns the caller of the call.
    pub(crate) fn caller(&self) -> CallerKey {
        self.caller
    }

    /// Returns `true` if the call holds a permit to compute.
    pub(crate) fn computes(&self) -> bool {
        self.has_permit
    }

    /// Releases the permit, so that another call can compute.
    pub(crate) fn pause(&mut self) {
        if std::mem::take(&mut self.has_permit) {
            self.shared.release(|state| state.permits += 1);
        }
    }

    /// Takes a permit again. Blocks without a time limit, because the calls that hold permits are short: each soon ends, pauses or
    /// becomes slow.
    pub(crate) fn resume(&mut self) {
        if self.has_permit {
            return;
        }
        let grant = Arc::new(Grant::default());
        self.shared.release(|state| state.resuming.push_back(Arc::clone(&grant)));
        grant.wait();
        self.has_permit = true;
    }
}

impl Grant {
    fn give(&self) {
        *self.is_given.lock() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut is_given = self.is_given.lock();
        while !*is_given {
            self.changed.wait(&mut is_given);
        }
    }
}

impl Drop for PoolSlot {
    fn drop(&mut self) {
        let permits = usize::from(self.has_permit);
        self.shared.release(|state| {
            state.free += 1;
            state.permits += permits;
        });
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        // The caller may be below its share from now on, and the shares of the others may have grown.
        self.shared.release(|state| state.end(self.caller));
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        // With one caller fewer in the queue, the limits of the others may have grown.
        self.shared.release(|state| state.remove(self.number));
    }
}

impl SharedPool {
    /// Changes the state, and passes free slots and permits to waiting calls.
    fn release(self: &Arc<Self>, change: impl FnOnce(&mut PoolState)) {
        let mut state = self.state.lock();
        change(&mut state);
        let mut granted = Vec::new();
        while state.permits > 0 {
            if let Some(grant) = state.resuming.pop_front() {
                state.permits -= 1;
                grant.give();
            } else if let Some(next) = state.take_next() {
                let admitted = self.enter(&mut state, next.caller);
                granted.push((next.sender, admitted));
            } else {
                break;
            }
        }
        drop(state);
        for (sender, admitted) in granted {
            // If the call has stopped waiting, dropping the slot passes it to the next call.
            drop(sender.send(admitted));
        }
    }

    fn enter(self: &Arc<Self>, state: &mut PoolState, caller: CallerKey) -> Admitted {
        state.begin(caller);
        let slot = PoolSlot { shared: Arc::clone(self), caller, has_permit: true };
        (slot, RunningCall { shared: Arc::clone(self), caller })
    }
}

/// The current load of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLoad {
    /// Number of slots.
    pub size: usize,
    /// Slots in use.
    pub busy: usize,
    /// Calls in the queue.
    pub queued: usize,
    /// Calls refused so far, at once or after their wait.
    pub refused: u64,
}

impl Pool {
    /// Creates a pool of `size` slots, at least one, and a queue of `queue_length` calls, each of which waits for at most `wait`.
    pub fn new(size: usize, queue_length: usize, wait: Duration) -> Self {
        let size = size.max(1);
        let state = PoolState::new(size, queue_length);
        Self { threads: Threads::default(), shared: Arc::new(SharedPool { size, state: Mutex::new(state) }), wait }
    }

    /// Limits the number of calls that compute at the same time, at least one. The other calls with a slot wait for their clients.
    /// Without this limit, every slot has a permit to compute.
    #[must_use]
    pub fn computing(self, most: usize) -> Self {
        self.shared.state.lock().permits = most.max(1);
        self
    }

    /// Limits what a caller has in progress to its share of the slots. Calls beyond the share wait. Without this limit, a caller
    /// may take every slot.
    #[must_use]
    pub fn shared_fairly(self, shares: FairShares) -> Self {
        self.shared.state.lock().shares = Some(shares);
        self
    }

    /// Returns the current load.
    pub fn load(&self) -> PoolLoad {
        let state = self.shared.state.lock();
        PoolLoad {
            size: self.shared.size,
            busy: self.shared.size - state.free,
            queued: state.queued(),
            refused: state.refused,
        }
    }

    /// Returns `true` if no call is running, including slow calls and calls whose caller no longer waits.
    pub fn is_idle(&self) -> bool {
        self.threads.are_idle()
    }

    /// Waits for a slot and a permit, and runs a blocking call. If the returned future is dropped, a call that has started continues,
    /// and a call that waits is removed from the queue.
    ///
    /// # Errors
    /// [`PoolError::Lost`] if the call panicked; the other errors if it has not run.
    pub async fn run<T, F>(&self, caller: CallerKey, work: F) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let admitted = self.admit(caller).await?;
        self.run_admitted(admitted, |slot, running| {
            let _running = running;
            slow_queries::run(slot, work)
        })
        .await
    }

    /// Waits for a slot and a permit to compute, without a thread. If the returned future is dropped, the call is removed from the
    /// queue.
    ///
    /// # Errors
    /// All of [`PoolError`] except [`PoolError::Lost`].
    pub async fn enter(&self, caller: CallerKey) -> Result<AdmittedCall, PoolError> {
        let (slot, running) = self.admit(caller).await?;
        Ok(AdmittedCall { pool: self.clone(), slot, running })
    }

    async fn run_admitted<T, F>(&self, (slot, running): Admitted, work: F) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: FnOnce(PoolSlot, RunningCall) -> T + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        self.threads.run(move || {
            let ended = catch_unwind(AssertUnwindSafe(|| work(slot, running))).map_err(|_| PoolError::Lost);
            // Sending fails if the caller no longer waits.
            drop(sender.send(ended));
        });
        // The sender is dropped without a result if no thread could be started, and only then.
        receiver.await.unwrap_or_else(|_| Err(self.refuse(PoolError::Full)))
    }

    /// Waits for a slot and a permit to compute. A call that ends releases its slot first and then stops to count as in progress, so
    /// that among callers with as many calls, its caller is not next.
    ///
    /// # Errors
    /// All of [`PoolError`] except [`PoolError::Lost`].
    pub(crate) async fn admit(&self, caller: CallerKey) -> Result<Admitted, PoolError> {
        let (place, receiver) = {
            let mut state = self.shared.state.lock();
            if state.admits_now(caller) {
                return Ok(self.shared.enter(&mut state, caller));
            }
            let (number, receiver) = state.push(caller).inspect_err(|_| state.refused += 1)?;
            (QueuePlace { shared: Arc::clone(&self.shared), number }, receiver)
        };
        match timeout(self.wait, receiver).await {
            Ok(Ok(admitted)) => Ok(admitted),
            // The call made room for another one.
            Ok(Err(_)) => Err(self.refuse(PoolError::Full)),
            Err(_) => {
                let is_share_in_use = self.shared.state.lock().is_share_in_use(caller);
                drop(place);
                Err(self.refuse(if is_share_in_use { PoolError::ShareInUse } else { PoolError::TooLong }))
            }
        }
    }

    /// Counts a refusal.
    fn refuse(&self, why: PoolError) -> PoolError {
        self.shared.state.lock().refused += 1;
        why
    }
}

#[cfg(test)]
mod models;
#[cfg(test)]
mod tests {
    use super::{Pool, PoolError, PoolLoad};
    use crate::caller_key::CallerKey;
    use crate::slow_queries;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::runtime::Handle;
    use tokio::sync::{Notify, oneshot};

    const ONE: CallerKey = CallerKey::Address(1);
    const TWO: CallerKey = CallerKey::Address(2);

    #[tokio::test]
    async fn a_full_queue_refuses_at_once_and_waiting_ends() {
        let pool = Pool::new(1, 1, Duration::from_millis(30));
        let held = pool.admit(ONE).await.unwrap();
        assert_eq!(pool.load(), PoolLoad { size: 1, busy: 1, queued: 0, refused: 0 });
        let (first, second) = tokio::join!(pool.run(ONE, || 1), pool.run(ONE, || 2));
        assert_eq!(first, Err(PoolError::TooLong));
        assert_eq!(second, Err(PoolError::Full));
        drop(held);
        assert_eq!(pool.load(), PoolLoad { size: 1, busy: 0, queued: 0, refused: 2 });
        assert_eq!(pool.run(ONE, || 3).await, Ok(3));
    }

    #[tokio::test]
    async fn a_call_that_entered_has_its_slot_until_it_has_run_anywhere() {
        let pool = Pool::new(1, 0, Duration::from_millis(30));
        let entered = pool.enter(ONE).await.unwrap();
        assert_eq!(pool.run(ONE, || 1).await, Err(PoolError::Full), "the slot is taken");
        let (result, running) = entered.run_here(|| 2).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(result, 2);
        assert_eq!(pool.run(ONE, || 3).await, Ok(3), "the slot is free while the call still counts");
        drop(running);
        let lost = pool.enter(ONE).await.unwrap().run_here(|| panic!("expected by the test"));
        assert_eq!(lost.map(|_: ((), _)| ()).unwrap_err(), PoolError::Lost);
        drop(pool.enter(ONE).await.unwrap());
        let (done, ran) = oneshot::channel();
        pool.enter(ONE).await.unwrap().run_detached(move || done.send(()).unwrap());
        ran.await.unwrap();
        // The thread releases the slot after its work.
        while pool.load().busy > 0 {
            tokio::task::yield_now().await;
        }
        let (threaded, _running) =
            pool.enter(ONE).await.unwrap().run_and_hold(|| 4).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(threaded, 4);
    }

    #[tokio::test]
    async fn who_waits_for_its_client_keeps_its_place_and_lets_another_one_compute() {
        let pool = Pool::new(2, 8, Duration::from_millis(30)).computing(1);
        let (idle, goes_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (runtime, is_idle, waits) = (Handle::current(), Arc::clone(&idle), Arc::clone(&goes_on));
        let slow = pool.run(ONE, move || {
            slow_queries::idle(|| {
                is_idle.notify_one();
                runtime.block_on(waits.notified());
            });
        });
        let others = async {
            idle.notified().await;
            assert_eq!(pool.run(ONE, || 1).await, Ok(1));
            let second = pool.admit(ONE).await.unwrap();
            assert_eq!(pool.load(), PoolLoad { size: 2, busy: 2, queued: 0, refused: 0 });
            assert_eq!(pool.run(ONE, || 2).await, Err(PoolError::TooLong), "both slots are taken");
            goes_on.notify_one();
            tokio::time::sleep(Duration::from_millis(60)).await;
            assert_eq!(pool.load().busy, 2, "it waits until the other one has computed");
            drop(second);
        };
        let (ended, ()) = tokio::join!(slow, others);
        assert_eq!(ended, Ok(()));
        assert_eq!(pool.load().busy, 0);
    }

    #[tokio::test]
    async fn those_past_the_ones_that_compute_wait_in_the_queue() {
        let pool = Pool::new(2, 1, Duration::from_millis(30)).computing(1);
        let _held = pool.admit(ONE).await.unwrap();
        let (first, second) = tokio::join!(pool.run(ONE, || 1), pool.run(ONE, || 2));
        assert_eq!((first, second), (Err(PoolError::TooLong), Err(PoolError::Full)));
        assert_eq!(pool.load(), PoolLoad { size: 2, busy: 1, queued: 0, refused: 2 });
    }

    #[tokio::test]
    async fn the_caller_with_the_fewest_calls_under_way_is_next() {
        let pool = Pool::new(2, 8, Duration::from_secs(10));
        let held = [pool.admit(ONE).await.unwrap(), pool.admit(ONE).await.unwrap()];
        let order = std::cell::RefCell::new(Vec::new());
        let enter = |caller| {
            let (pool, order) = (&pool, &order);
            async move {
                let admitted = pool.admit(caller).await.unwrap();
                order.borrow_mut().push(caller);
                drop(admitted);
            }
        };
        let leave = async {
            assert_eq!(pool.load().queued, 3);
            let [first, second] = held;
            drop(first);
            tokio::task::yield_now().await;
            drop(second);
        };
        tokio::join!(enter(ONE), enter(ONE), enter(TWO), leave);
        assert_eq!(*order.borrow(), [TWO, ONE, ONE]);
        assert!(pool.shared.state.lock().is_unused());
    }

    #[tokio::test]
    async fn who_fills_the_queue_makes_room_for_others() {
        let pool = Pool::new(1, 2, Duration::from_secs(10));
        let held = pool.admit(ONE).await.unwrap();
        let ended =
            tokio::join!(pool.run(ONE, || 1), pool.run(ONE, || 2), pool.run(TWO, || 3), pool.run(ONE, || 4), async {
                drop(held);
            });
        assert_eq!(ended.0, Ok(1));
        assert_eq!(ended.1, Err(PoolError::Full), "it made room for the other caller");
        assert_eq!(ended.2, Ok(3));
        assert_eq!(ended.3, Err(PoolError::Full), "its caller has as many in the queue as the other one");
        assert_eq!(pool.load().refused, 2);
    }

    #[tokio::test]
    async fn a_place_that_nobody_waits_for_any_more_is_the_next_ones() {
        let pool = Pool::new(1, 8, Duration::from_millis(30));
        let held = pool.admit(ONE).await.unwrap();
        assert_eq!(pool.admit(TWO).await.err(), Some(PoolError::TooLong));
        assert_eq!(pool.load().queued, 0);
        let (entered, ()) = tokio::join!(pool.admit(ONE), async { drop(held) });
        assert!(entered.is_ok());
    }

    #[tokio::test]
    async fn a_panic_frees_the_place() {
        let pool = Pool::new(1, 1, Duration::from_millis(30));
        let lost: Result<(), _> = pool.run(ONE, || panic!("expected by the test")).await;
        assert_eq!(lost, Err(PoolError::Lost));
        assert_eq!(pool.run(ONE, || 3).await, Ok(3));
    }
}
