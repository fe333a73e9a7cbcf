//! Notification of listeners when users may have lost rights.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Listener = Arc<dyn Fn() + Send + Sync>;

/// The listeners of other crates that cache permissions.
#[derive(Default)]
pub(crate) struct Revocations(Mutex<Vec<Listener>>);

impl Revocations {
    fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn listen(&self, listener: Listener) {
        self.lock().push(listener);
    }

    /// Calls every listener. To be called once the loss of rights is committed.
    pub(crate) fn announce(&self) {
        let listeners = self.lock().clone();
        listeners.iter().for_each(|listener| listener());
    }
}
