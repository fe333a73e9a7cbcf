//! Signals for idle workers.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// A counter of signals that idle workers wait on.
#[derive(Default)]
pub struct Wake {
    queued: Mutex<u64>,
    signal: Condvar,
}

impl Wake {
    /// Signals that there is work, and wakes one worker.
    pub fn one(&self) {
        *self.queued.lock() += 1;
        self.signal.notify_one();
    }

    /// Wakes all workers.
    pub fn all(&self) {
        *self.queued.lock() += 1;
        self.signal.notify_all();
    }

    /// Returns the number of signals so far. Pass a count that was read before looking for work to [`Wake::wait`], so that
    /// no signal is missed.
    pub fn count(&self) -> u64 {
        *self.queued.lock()
    }

    /// Waits until there has been a signal since `seen`, for at most `at_most`.
    pub fn wait(&self, seen: u64, at_most: Duration) {
        self.signal.wait_while_for(&mut self.queued.lock(), |now| *now == seen, at_most);
    }
}
