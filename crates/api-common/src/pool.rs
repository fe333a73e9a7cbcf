//! Bounded places for blocking calls, so that no worker of the server ever blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::lanes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Why a call did not run, or did not come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The queue is full.
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
    places: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    refused: Arc<AtomicU64>,
    size: usize,
    queue: usize,
    wait: Duration,
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
        let places = Arc::new(Semaphore::new(size));
        Self { places, waiting: Arc::default(), refused: Arc::default(), size, queue, wait }
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
        let running = tokio::task::spawn_blocking(move || lanes::run(place, work));
        running.await.map_err(|_| PoolError::Lost)
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// [`PoolError::Full`], [`PoolError::TooLong`].
    pub async fn place(&self) -> Result<OwnedSemaphorePermit, PoolError> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place);
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(Arc::clone(&self.waiting));
        if before >= self.queue {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(PoolError::Full);
        }
        match tokio::time::timeout(self.wait, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(PoolError::TooLong)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Pool, PoolError, PoolLoad};
    use std::time::Duration;

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
    async fn a_panic_frees_the_place() {
        let pool = Pool::new(1, 1, Duration::from_millis(30));
        let lost: Result<(), _> = pool.run(|| panic!("expected by the test")).await;
        assert_eq!(lost, Err(PoolError::Lost));
        assert_eq!(pool.run(|| 3).await, Ok(3));
    }
}
