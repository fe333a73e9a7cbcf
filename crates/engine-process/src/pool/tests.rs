//! A pool without processes, for workers that a test plays.

use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_domain::values::DatabaseId;
use parking_lot::{Condvar, Mutex};

use super::{Borrowed, Pool, PoolSettings, State};
use crate::messages::Setup;
use crate::process::WorkerProcess;

impl Pool {
    pub(crate) fn without_launcher(setup: Setup) -> Arc<Self> {
        let (idle, wait) = (Duration::MAX, Duration::ZERO);
        let settings = PoolSettings { most: 2, blank: 0, idle, most_calls: u32::MAX, wait, setup };
        Arc::new(Self {
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
            settings,
            opened: Instant::now(),
        })
    }

    /// Lends a worker that did not come from the pool.
    pub(crate) fn lend_played(self: &Arc<Self>, worker: WorkerProcess, database: DatabaseId) -> Borrowed {
        let mut state = self.state.lock();
        state.bound += 1;
        self.lend(&mut state, worker, database)
    }

    /// Ends all idle workers. Returns the number of places that are taken then.
    pub(crate) fn places_after(&self, database: DatabaseId) -> usize {
        self.evict(database);
        self.state.lock().bound
    }
}
