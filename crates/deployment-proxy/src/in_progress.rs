//! Bounds on the requests in progress, in all and by caller.

use std::sync::Arc;

use branchyard_http_common::{CallerKey, ConcurrencyLimiter, ConcurrencyPermit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of requests in progress. Each holds up to 1 MiB of memory and a connection to its instance.
pub(crate) const IN_PROGRESS: usize = 256;
/// Maximum number of requests in progress of one caller. A deployment at its defaults has at most 100 streams, so a single
/// deployment does not need more.
pub(crate) const PER_CALLER: usize = IN_PROGRESS / 2;

/// Counts the requests in progress.
pub(crate) struct InProgress {
    all: Arc<Semaphore>,
    callers: ConcurrencyLimiter,
}

/// The right to have one request in progress. Held until the response has been sent or dropped.
pub(crate) struct RequestPermit {
    #[expect(dead_code, reason = "held until the request has ended")]
    held: (ConcurrencyPermit, OwnedSemaphorePermit),
}

/// The bound that a request would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TooMany {
    OfCaller,
    InAll,
}

impl Default for InProgress {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(IN_PROGRESS)), callers: ConcurrencyLimiter::new(PER_CALLER) }
    }
}

impl InProgress {
    /// Takes a permit. Never waits, because the requests in progress may be long.
    pub(crate) fn take(&self, caller: CallerKey) -> Result<RequestPermit, TooMany> {
        let of_caller = self.callers.take(caller).ok_or(TooMany::OfCaller)?;
        let in_all = Arc::clone(&self.all).try_acquire_owned().map_err(|_| TooMany::InAll)?;
        Ok(RequestPermit { held: (of_caller, in_all) })
    }

    /// Returns the number of requests in progress.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        IN_PROGRESS - self.all.available_permits()
    }
}

#[cfg(test)]
mod tests {
    use super::{CallerKey, IN_PROGRESS, InProgress, PER_CALLER, TooMany};

    #[test]
    fn a_caller_has_its_share_and_all_callers_have_a_bound() {
        let requests = InProgress::default();
        let take = |caller| requests.take(CallerKey::Address(caller));
        let mut first: Vec<_> = (0..PER_CALLER).map(|_| take(1).unwrap()).collect();
        assert_eq!(take(1).err(), Some(TooMany::OfCaller));
        let second: Vec<_> = (0..IN_PROGRESS - PER_CALLER).map(|_| take(2).unwrap()).collect();
        assert_eq!(take(3).err(), Some(TooMany::InAll));
        assert_eq!(take(1).err(), Some(TooMany::OfCaller), "the reason that the caller can do something about");
        first.pop();
        let third = take(3).unwrap();
        assert_eq!(take(3).err(), Some(TooMany::InAll));
        // A request that was refused for lack of room counts for no caller.
        drop((first, second, third));
        assert_eq!(requests.count(), 0);
        assert!((0..PER_CALLER).map(|_| take(3)).collect::<Vec<_>>().iter().all(Result::is_ok));
    }
}
