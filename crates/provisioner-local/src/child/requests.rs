//! The running requests, and their cancellation.

use std::collections::HashMap;
use std::sync::Arc;

use branchyard_domain::ports::CancellationToken;
use parking_lot::Mutex;

/// The running requests of a process.
#[derive(Default)]
pub(crate) struct Requests {
    state: Mutex<RequestsState>,
}

#[derive(Default)]
struct RequestsState {
    next: u64,
    running: HashMap<u64, CancellationToken>,
    /// Whether all requests are canceled, those that begin later too.
    is_over: bool,
}

/// A running request, counted until it is dropped.
pub(crate) struct RunningRequest {
    requests: Arc<Requests>,
    id: u64,
    canceled: CancellationToken,
}

/// Cancels a request when it is dropped: its client is gone.
pub(crate) struct CancelOnDrop(CancellationToken);

impl Requests {
    /// Registers a request.
    pub(crate) fn begin(self: &Arc<Self>) -> RunningRequest {
        let canceled = CancellationToken::default();
        let mut state = self.state.lock();
        if state.is_over {
            canceled.cancel();
        }
        state.next += 1;
        let id = state.next;
        state.running.insert(id, canceled.clone());
        RunningRequest { requests: Arc::clone(self), id, canceled }
    }

    /// Returns the number of running requests.
    pub(crate) fn count(&self) -> usize {
        self.state.lock().running.len()
    }

    /// Cancels all requests for good.
    pub(crate) fn cancel_all(&self) {
        let mut state = self.state.lock();
        state.is_over = true;
        state.running.values().for_each(CancellationToken::cancel);
    }
}

impl RunningRequest {
    /// Returns the flag that cancels the statements of the request.
    pub(crate) fn canceled(&self) -> &CancellationToken {
        &self.canceled
    }

    /// Returns a guard that cancels the request when it is dropped.
    pub(crate) fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.canceled.clone())
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.requests.state.lock().running.remove(&self.id);
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_canceled_one_by_one_or_all_for_good() {
        let requests = Arc::new(Requests::default());
        let (one, two) = (requests.begin(), requests.begin());
        drop(one.cancel_on_drop());
        assert_eq!((one.canceled().is_canceled(), two.canceled().is_canceled()), (true, false));
        drop(one);
        assert_eq!(requests.count(), 1);
        requests.cancel_all();
        assert!(two.canceled().is_canceled() && requests.begin().canceled().is_canceled());
        drop(two);
        assert_eq!(requests.count(), 0);
    }
}
