//! Who is told when people may have lost rights.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Listener = Arc<dyn Fn() + Send + Sync>;

/// Crates over this one that remember what people may do.
#[derive(Default)]
pub(crate) struct Revocations(Mutex<Vec<Listener>>);

impl Revocations {
    fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn listen(&self, listener: Listener) {
        self.lock().push(listener);
    }

    /// Calls every listener, once the loss is saved.
    pub(crate) fn announce(&self) {
        let listeners = self.lock().clone();
        listeners.iter().for_each(|listener| listener());
    }
}
