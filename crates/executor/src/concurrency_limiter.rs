//! A limit on the concurrent calls of each caller.

use std::collections::HashMap;
use std::sync::Arc;

use crate::caller_key::CallerKey;
use crate::sync::Mutex;

/// Limits the concurrent calls of each caller. Stores only callers with running calls.
#[derive(Clone)]
pub struct ConcurrencyLimiter {
    running: Arc<Mutex<HashMap<CallerKey, usize>>>,
    limit: usize,
}

/// A permit for one running call. Dropping it releases the permit.
pub struct ConcurrencyPermit {
    limiter: ConcurrencyLimiter,
    caller: CallerKey,
}

impl ConcurrencyLimiter {
    /// Creates a limiter with at most `limit` concurrent calls per caller.
    pub fn new(limit: usize) -> Self {
        Self { running: Arc::default(), limit }
    }

    /// Takes a permit for this caller; returns `None` if the caller has reached the limit.
    pub fn take(&self, caller: CallerKey) -> Option<ConcurrencyPermit> {
        let mut running = self.running.lock();
        let count = running.get(&caller).copied().unwrap_or_default();
        if count >= self.limit {
            return None;
        }
        running.insert(caller, count + 1);
        Some(ConcurrencyPermit { limiter: self.clone(), caller })
    }
}

impl Drop for ConcurrencyPermit {
    fn drop(&mut self) {
        let mut running = self.limiter.running.lock();
        if let Some(count) = running.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ConcurrencyLimiter;
    use crate::caller_key::CallerKey;

    #[test]
    fn places_are_per_caller_and_come_back() {
        let limiter = ConcurrencyLimiter::new(2);
        let first = limiter.take(CallerKey::Address(1));
        let second = limiter.take(CallerKey::Address(1));
        assert!(first.is_some() && second.is_some());
        assert!(limiter.take(CallerKey::Address(1)).is_none());
        assert!(limiter.take(CallerKey::Address(2)).is_some());
        drop(first);
        assert!(limiter.take(CallerKey::Address(1)).is_some());
        drop(second);
        assert!(limiter.running.lock().is_empty());
    }
}

#[cfg(test)]
mod models {
    use std::sync::Arc;

    use super::ConcurrencyLimiter;
    use crate::caller_key::CallerKey;
    use crate::model::{self, Occupancy, Timers};

    #[test]
    fn no_more_calls_run_than_the_limit_and_no_permit_is_lost() {
        model::check(Timers::Never, || {
            let (limiter, running) = (ConcurrencyLimiter::new(2), Occupancy::at_most(2));
            let call = || {
                let (limiter, running) = (limiter.clone(), Arc::clone(&running));
                Box::new(move || {
                    if let Some(_permit) = limiter.take(CallerKey::Address(1)) {
                        running.visit();
                    }
                }) as Box<dyn FnOnce() + Send>
            };
            model::run_together(vec![call(), call(), call()]);
            assert!(limiter.running.lock().is_empty());
        });
    }
}
