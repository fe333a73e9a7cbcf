//! Notification of listeners when direct writes end, for metrics.

use std::time::Duration;

use parking_lot::RwLock;

use super::Ended;

type Listener = Box<dyn Fn(Ended, Duration) + Send + Sync>;

/// The listeners of a hub.
#[derive(Default)]
pub(crate) struct DirectEnds(RwLock<Vec<Listener>>);

impl DirectEnds {
    pub(super) fn listen(&self, listener: Listener) {
        self.0.write().push(listener);
    }

    /// Calls every listener. To be called once the end of the write is committed.
    pub(super) fn announce(&self, ended: Ended, took: Duration) {
        self.0.read().iter().for_each(|listener| listener(ended, took));
    }
}
