//! Back-pressure: limits on the number of running statements, on the number of waiting requests and on their wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Maximum number of waiting requests per running statement.
const WAITING_PER_THREAD: usize = 10;

/// The slots for running statements.
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
    most_waiting: usize,
}

/// A permit to run statements until it is dropped.
pub(crate) struct RunPermit {
    _permit: OwnedSemaphorePermit,
}

impl Slots {
    pub(crate) fn new(at_once: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(at_once)),
            waiting: AtomicUsize::new(0),
            most_waiting: at_once * WAITING_PER_THREAD,
        }
    }

    /// Waits for a slot. Returns `None` if too many requests are waiting, or if the wait takes too long.
    pub(crate) async fn enter(&self) -> Option<RunPermit> {
        struct Leave<'a>(&'a AtomicUsize);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::AcqRel);
            }
        }
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(RunPermit { _permit: permit });
        }
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= self.most_waiting {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let _leave = Leave(&self.waiting);
        tokio::time::timeout(LONGEST_WAIT, self.enter_again()).await.ok().flatten()
    }

    /// Waits for a slot without a limit, for a request that is already running.
    pub(crate) async fn enter_again(&self) -> Option<RunPermit> {
        // The semaphore is never closed.
        Arc::clone(&self.free).acquire_owned().await.ok().map(|permit| RunPermit { _permit: permit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn few_run_some_wait_and_the_rest_is_refused() {
        let slots = Arc::new(Slots::new(1));
        let held = slots.enter().await.unwrap();
        let waiting: Vec<_> = (0..WAITING_PER_THREAD)
            .map(|_| {
                let slots = Arc::clone(&slots);
                tokio::spawn(async move { slots.enter().await.is_some() })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(slots.enter().await.is_none(), "one more than may wait");
        drop(held);
        for waited in waiting {
            assert!(waited.await.unwrap());
        }
        let _held = slots.enter().await.unwrap();
        let began = tokio::time::Instant::now();
        assert!(slots.enter().await.is_none());
        assert_eq!(began.elapsed(), LONGEST_WAIT);
    }
}
