//! Waking idle workers.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Wakes an idle worker when there is something to do.
#[derive(Default)]
pub struct Wake {
    queued: Mutex<u64>,
    signal: Condvar,
}

impl Wake {
    /// Wakes one worker.
    pub fn one(&self) {
        *self.queued.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.signal.notify_one();
    }

    /// Returns how often a worker was woken so far. Read before looking for work, it makes [`Wake::wait`] miss nothing.
    pub fn count(&self) -> u64 {
        *self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a worker was woken since `seen`, at most so long.
    pub fn wait(&self, seen: u64, at_most: Duration) {
        let guard = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.signal.wait_timeout_while(guard, at_most, |now| *now == seen));
    }
}
