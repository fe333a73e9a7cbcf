//! Signals for idle workers.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A counter of signals that idle workers wait on.
#[derive(Default)]
pub struct Wake {
    queued: Mutex<u64>,
    signal: Condvar,
}

impl Wake {
    /// Signals that there is work, and wakes one worker.
    pub fn one(&self) {
        *self.queued.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.signal.notify_one();
    }

    /// Returns the number of signals so far. Pass a count that was read before looking for work to [`Wake::wait`], so that
    /// no signal is missed.
    pub fn count(&self) -> u64 {
        *self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there has been a signal since `seen`, for at most `at_most`.
    pub fn wait(&self, seen: u64, at_most: Duration) {
        let guard = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.signal.wait_timeout_while(guard, at_most, |now| *now == seen));
    }
}
