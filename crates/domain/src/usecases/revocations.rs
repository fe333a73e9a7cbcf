//! Notification of listeners when users may have lost rights.

use std::sync::Arc;

use parking_lot::Mutex;

type Listener = Arc<dyn Fn() + Send + Sync>;

/// The listeners of other crates that cache permissions.
#[derive(Default)]
pub(crate) struct Revocations(Mutex<Vec<Listener>>);

impl Revocations {
    pub(crate) fn listen(&self, listener: Listener) {
        self.0.lock().push(listener);
    }

    /// Calls every listener. To be called once the loss of rights is committed.
    pub(crate) fn announce(&self) {
        let listeners = self.0.lock().clone();
        listeners.iter().for_each(|listener| listener());
    }
}
