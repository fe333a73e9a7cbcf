//! Processor time by the shape of statements, to recognize slow statements.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quick_cache::sync::Cache;

use crate::sync::Mutex;

/// Maximum number of remembered shapes of slow statements.
const SHAPES: usize = 1_024;
/// Time for which a shape is remembered. Afterwards, the speed of the statement is measured again.
const REMEMBERED: Duration = Duration::from_secs(60);

/// What is known about the shapes of statements.
pub(super) struct Shapes {
    /// Shapes of slow statements, and when each was last found slow.
    slow: Cache<u64, Instant>,
    /// Processor time of running short calls by the shape of their statements.
    short_times: Mutex<HashMap<u64, Duration>>,
}

impl Shapes {
    pub(super) fn new() -> Self {
        Self { slow: Cache::new(SHAPES), short_times: Mutex::default() }
    }

    /// Returns `true` if statements of this shape were slow recently.
    pub(super) fn are_slow(&self, shape: u64) -> bool {
        self.slow.get(&shape).is_some_and(|at| at.elapsed() < REMEMBERED)
    }

    /// Records that a statement of this shape is slow.
    pub(super) fn record_slow(&self, shape: u64) {
        self.slow.insert(shape, Instant::now());
    }

    #[cfg(test)]
    pub(super) fn count_nothing(&self) -> bool {
        self.short_times.lock().is_empty()
    }
}

/// The processor time of a short call, added to that of all short calls with the same shape.
pub(super) struct CountedTime {
    shapes: Arc<Shapes>,
    shape: u64,
    used: Duration,
}

impl CountedTime {
    pub(super) fn new(shapes: Arc<Shapes>, shape: u64) -> Self {
        Self { shapes, shape, used: Duration::ZERO }
    }

    /// Adds the time used since the last count, and returns the time of all calls with this shape.
    pub(super) fn count(&mut self, used: Duration) -> Duration {
        let mut short_times = self.shapes.short_times.lock();
        let together = short_times.entry(self.shape).or_default();
        let more = used.saturating_sub(self.used);
        *together += more;
        self.used += more;
        *together
    }
}

impl Drop for CountedTime {
    fn drop(&mut self) {
        let mut short_times = self.shapes.short_times.lock();
        if let Some(together) = short_times.get_mut(&self.shape) {
            *together = together.saturating_sub(self.used);
            if together.is_zero() {
                short_times.remove(&self.shape);
            }
        }
    }
}
