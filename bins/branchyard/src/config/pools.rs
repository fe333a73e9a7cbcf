//! Configuration of the pools for blocking calls, and of slow-query scheduling.

use std::time::Duration;

use branchyard_executor::SlowQueryLimits;
use branchyard_http_common::PoolSizes;
use serde::{Deserialize, Serialize};

/// Sizes of the pools and limits of slow queries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pools {
    /// Maximum number of concurrent lookups.
    pub reads: usize,
    /// Maximum number of concurrent changes.
    pub writes: usize,
    /// Maximum number of concurrent uploads of parts.
    pub uploads: usize,
    /// Capacity of the queue of each pool.
    pub queue_length: usize,
    /// Maximum queue wait, in milliseconds.
    pub queue_wait_ms: u64,
    /// Processor time in milliseconds after which a call counts as slow.
    pub long_after_ms: u64,
    /// Maximum number of slow calls that compute concurrently; 0 means one per core.
    pub long_places: usize,
    /// Maximum number of slow calls, whether they compute or wait.
    pub long_calls: usize,
    /// Maximum wait of a slow call for its first time slice, in milliseconds.
    pub long_wait_ms: u64,
    /// Length of a time slice in milliseconds while other slow calls wait.
    pub long_turn_ms: u64,
}

impl Default for Pools {
    fn default() -> Self {
        let (pools, long) = (PoolSizes::default(), SlowQueryLimits::default());
        Self {
            reads: pools.reads,
            writes: pools.writes,
            uploads: pools.uploads,
            queue_length: pools.queue,
            queue_wait_ms: millis(pools.wait),
            long_after_ms: millis(long.slow_after),
            long_places: 0,
            long_calls: long.max_calls,
            long_wait_ms: millis(long.max_wait),
            long_turn_ms: millis(long.turn),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Pools {
    /// Returns the sizes of the pools.
    pub fn sizes(&self) -> PoolSizes {
        PoolSizes {
            reads: self.reads,
            writes: self.writes,
            uploads: self.uploads,
            queue: self.queue_length,
            wait: Duration::from_millis(self.queue_wait_ms),
        }
    }

    /// Returns the limits of the slow-query scheduler, without those that worker processes need.
    pub fn long(&self) -> SlowQueryLimits {
        SlowQueryLimits {
            slow_after: Duration::from_millis(self.long_after_ms),
            max_computing: if self.long_places == 0 {
                SlowQueryLimits::default().max_computing
            } else {
                self.long_places
            },
            max_calls: self.long_calls,
            places: None,
            max_wait: Duration::from_millis(self.long_wait_ms),
            turn: Duration::from_millis(self.long_turn_ms),
        }
    }

    /// Returns the interval at which the engine reports on a computing call. The interval is short enough to detect slow calls in
    /// time.
    pub fn long_look(&self) -> Duration {
        Duration::from_millis(self.long_after_ms) / 5
    }
}
