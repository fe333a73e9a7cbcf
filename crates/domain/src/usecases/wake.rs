//! Signals for idle workers.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::signals::{Peers, Signal};

/// A counter of signals that idle workers wait on.
#[derive(Default)]
pub struct Wake {
    queued: Mutex<u64>,
    signal: Condvar,
    /// What idle workers of other processes are woken by.
    peers: Option<(Peers, Signal)>,
}

impl Wake {
    /// Creates a counter whose signals also reach other processes.
    pub(super) fn shared(peers: &Peers, signal: Signal) -> Self {
        Self { peers: Some((peers.clone(), signal)), ..Self::default() }
    }

    /// Signals that there is work, and wakes one worker, here and in other processes.
    pub fn one(&self) {
        self.one_here();
        if let Some((peers, signal)) = &self.peers {
            peers.signal(*signal);
        }
    }

    /// Signals that there is work, and wakes one worker of this process.
    pub(super) fn one_here(&self) {
        *self.queued.lock() += 1;
        self.signal.notify_one();
    }

    /// Wakes all workers of this process.
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
