//! Places for blocking calls, and the lane of the long ones.

use std::time::Duration;

use branchyard_executor::SlowQueryLimits;
use branchyard_http_common::PoolSizes;
use serde::{Deserialize, Serialize};

/// How much is done at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pools {
    /// Look-ups at once.
    pub reads: usize,
    /// Changes at once.
    pub writes: usize,
    /// Parts of uploads at once.
    pub uploads: usize,
    /// Calls waiting for a place, per pool.
    pub queue_length: usize,
    /// Milliseconds one waits.
    pub queue_wait_ms: u64,
    /// Milliseconds of computing after which a call is a long one.
    pub long_after_ms: u64,
    /// Long calls that compute at once; 0 = one per core.
    pub long_places: usize,
    /// Long calls there are at once.
    pub long_calls: usize,
    /// Milliseconds a long call waits for its first turn.
    pub long_wait_ms: u64,
    /// Milliseconds a turn lasts when others wait.
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
            long_after_ms: millis(long.after),
            long_places: 0,
            long_calls: long.calls,
            long_wait_ms: millis(long.wait),
            long_turn_ms: millis(long.turn),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Pools {
    /// Sizes of the pools.
    pub fn sizes(&self) -> PoolSizes {
        PoolSizes {
            reads: self.reads,
            writes: self.writes,
            uploads: self.uploads,
            queue: self.queue_length,
            wait: Duration::from_millis(self.queue_wait_ms),
        }
    }

    /// Sizes of the lane of long calls.
    pub fn long(&self) -> SlowQueryLimits {
        SlowQueryLimits {
            after: Duration::from_millis(self.long_after_ms),
            places: if self.long_places == 0 { SlowQueryLimits::default().places } else { self.long_places },
            calls: self.long_calls,
            wait: Duration::from_millis(self.long_wait_ms),
            turn: Duration::from_millis(self.long_turn_ms),
        }
    }

    /// How often the engine asks about a call that computes: often enough for those that are to be long ones.
    pub fn long_look(&self) -> Duration {
        Duration::from_millis(self.long_after_ms) / 5
    }
}
