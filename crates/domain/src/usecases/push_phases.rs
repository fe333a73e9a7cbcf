//! Notification of listeners when the parts of a push end, for metrics.

use std::time::Duration;

use parking_lot::RwLock;

/// The parts of a push, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PushPhase {
    /// Finding out whether everything below the commit is there.
    Walk,
    /// Adding the chunks to the file of the database.
    Put,
    /// Checking the content of the commit.
    Check,
    /// Moving the branch or tag.
    Save,
}

type Listener = Box<dyn Fn(PushPhase, Duration) + Send + Sync>;

/// The listeners of a hub.
#[derive(Default)]
pub(crate) struct PushPhases(RwLock<Vec<Listener>>);

impl PushPhases {
    pub(super) fn listen(&self, listener: Listener) {
        self.0.write().push(listener);
    }

    /// Calls every listener.
    pub(super) fn announce(&self, phase: PushPhase, took: Duration) {
        self.0.read().iter().for_each(|listener| listener(phase, took));
    }
}
