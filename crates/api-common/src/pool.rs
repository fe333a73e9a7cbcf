//! Bounded places for blocking calls, so that no worker of the server ever blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::lanes;
use crate::threads::Threads;
use tokio::runtime::Handle;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, oneshot};

/// Why a call did not run, or did not come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The queue is full, or the process may have no more threads.
    #[error("the queue is full")]
    Full,
    /// No place got free in time.
    #[error("no place got free in time")]
    TooLong,
    /// The call panicked.
    #[error("the call was lost")]
    Lost,
}

/// A number of places for blocking calls, with a bounded queue before them.
#[derive(Clone)]
pub struct Pool {
    threads: Threads,
    places: Arc<Semaphore>,
    /// A permit for each call that may compute at the same time.
    computing: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    refused: Arc<AtomicU64>,
    size: usize,
    queue: usize,
    wait: Duration,
}

/// What a call holds while it is short: a place, and while it waits for nobody a permit to compute.
pub struct PoolPlace {
    _place: OwnedSemaphorePermit,
    permit: Option<OwnedSemaphorePermit>,
    computing: Arc<Semaphore>,
}

impl PoolPlace {
    /// Lets another one compute.
    pub(crate) fn pause(&mut self) {
        self.permit = None;
    }

    /// Waits until it may compute again; blocks. There is no limit, because those who compute are short: they end, pause or become long ones.
    pub(crate) fn resume(&mut self, runtime: &Handle) {
        if self.permit.is_none() {
            self.permit = runtime.block_on(Arc::clone(&self.computing).acquire_owned()).ok();
        }
    }
}

/// How a pool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLoad {
    /// Places.
    pub size: usize,
    /// Of them, taken.
    pub busy: usize,
    /// Calls that wait for one.
    pub queued: usize,
    /// Calls that were turned away so far, at once or after their wait.
    pub refused: u64,
}

/// Counts a waiting call for as long as it lives.
struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pool {
    /// `size` places; `queue` calls wait for one, each at most `wait`.
    pub fn new(size: usize, queue: usize, wait: Duration) -> Self {
        let size = size.max(1);
        let semaphore = || Arc::new(Semaphore::new(size));
        Self {
            threads: Threads::default(),
            places: semaphore(),
            computing: semaphore(),
            waiting: Arc::default(),
            refused: Arc::default(),
            size,
            queue,
            wait,
        }
    }

    /// Only so many of those who have a place compute at once: the others wait for their clients.
    #[must_use]
    pub fn computing(self, most: usize) -> Self {
        Self { computing: Arc::new(Semaphore::new(most.max(1))), ..self }
    }

    /// How it does now.
    pub fn load(&self) -> PoolLoad {
        PoolLoad {
            size: self.size,
            busy: self.size - self.places.available_permits().min(self.size),
            queued: self.waiting.load(Ordering::Relaxed).min(self.queue),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Whether no call is under way, not even one that is long or whose caller went away.
    pub fn is_idle(&self) -> bool {
        self.threads.are_idle()
    }

    /// Runs a blocking call. It goes on when the caller goes away.
    ///
    /// # Errors
    /// [`PoolError`].
    pub async fn run<T, F>(&self, work: F) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let place = self.place().await?;
        let (tell, told) = oneshot::channel();
        // Nobody may be there any more to be told.
        if !self.threads.run(move || drop(tell.send(lanes::run(place, work)))) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(PoolError::Full);
        }
        told.await.map_err(|_| PoolError::Lost)
    }

    /// Waits for a place and for the permit to compute.
    ///
    /// # Errors
    /// [`PoolError::Full`], [`PoolError::TooLong`].
    pub async fn place(&self) -> Result<PoolPlace, PoolError> {
        if let Some(place) = self.free_place() {
            return Ok(place);
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(Arc::clone(&self.waiting));
        if before >= self.queue {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(PoolError::Full);
        }
        match tokio::time::timeout(self.wait, self.next_place()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(PoolError::TooLong)
            }
        }
    }

    fn free_place(&self) -> Option<PoolPlace> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let permit = Arc::clone(&self.computing).try_acquire_owned().ok()?;
        Some(self.taken(place, permit))
    }

    async fn next_place(&self) -> Result<PoolPlace, AcquireError> {
        let place = Arc::clone(&self.places).acquire_owned().await?;
        let permit = Arc::clone(&self.computing).acquire_owned().await?;
        Ok(self.taken(place, permit))
    }

    fn taken(&self, place: OwnedSemaphorePermit, permit: OwnedSemaphorePermit) -> PoolPlace {
        PoolPlace { _place: place, permit: Some(permit), computing: Arc::clone(&self.computing) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Pool, PoolError, PoolLoad};
    use crate::lanes;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::runtime::Handle;
    use tokio::sync::Notify;

    #[actix_web::test]
    async fn a_full_queue_refuses_at_once_and_waiting_ends() {
        let pool = Pool::new(1, 1, Duration::from_millis(30));
        let held = pool.place().await.unwrap();
        assert_eq!(pool.load(), PoolLoad { size: 1, busy: 1, queued: 0, refused: 0 });
        let (first, second) = tokio::join!(pool.run(|| 1), pool.run(|| 2));
        assert_eq!(first, Err(PoolError::TooLong));
        assert_eq!(second, Err(PoolError::Full));
        drop(held);
        assert_eq!(pool.load(), PoolLoad { size: 1, busy: 0, queued: 0, refused: 2 });
        assert_eq!(pool.run(|| 3).await, Ok(3));
    }

    #[actix_web::test]
    async fn who_waits_for_its_client_keeps_its_place_and_lets_another_one_compute() {
        let pool = Pool::new(2, 8, Duration::from_millis(30)).computing(1);
        let (idle, goes_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (runtime, is_idle, waits) = (Handle::current(), Arc::clone(&idle), Arc::clone(&goes_on));
        let slow = pool.run(move || {
            lanes::idle(&runtime, || {
                is_idle.notify_one();
                runtime.block_on(waits.notified());
            });
        });
        let others = async {
            idle.notified().await;
            assert_eq!(pool.run(|| 1).await, Ok(1));
            let second = pool.place().await.unwrap();
            assert_eq!(pool.load(), PoolLoad { size: 2, busy: 2, queued: 0, refused: 0 });
            assert_eq!(pool.run(|| 2).await, Err(PoolError::TooLong), "both places are taken");
            goes_on.notify_one();
            tokio::time::sleep(Duration::from_millis(60)).await;
            assert_eq!(pool.load().busy, 2, "it waits until the other one has computed");
            drop(second);
        };
        let (ended, ()) = tokio::join!(slow, others);
        assert_eq!(ended, Ok(()));
        assert_eq!(pool.load().busy, 0);
    }

    #[actix_web::test]
    async fn those_past_the_ones_that_compute_wait_in_the_queue() {
        let pool = Pool::new(2, 1, Duration::from_millis(30)).computing(1);
        let _held = pool.place().await.unwrap();
        let (first, second) = tokio::join!(pool.run(|| 1), pool.run(|| 2));
        assert_eq!((first, second), (Err(PoolError::TooLong), Err(PoolError::Full)));
        assert_eq!(pool.load(), PoolLoad { size: 2, busy: 1, queued: 0, refused: 2 });
    }

    #[actix_web::test]
    async fn a_panic_frees_the_place() {
        let pool = Pool::new(1, 1, Duration::from_millis(30));
        let lost: Result<(), _> = pool.run(|| panic!("expected by the test")).await;
        assert_eq!(lost, Err(PoolError::Lost));
        assert_eq!(pool.run(|| 3).await, Ok(3));
    }
}
