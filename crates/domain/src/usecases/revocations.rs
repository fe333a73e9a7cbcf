//! Notification of listeners when users may have lost rights.

use std::sync::Arc;

use parking_lot::Mutex;

use super::signals::{Peers, Signal};

type Listener = Arc<dyn Fn() + Send + Sync>;

/// The listeners of other crates that cache permissions.
#[derive(Default)]
pub(crate) struct Revocations {
    listeners: Mutex<Vec<Listener>>,
    peers: Peers,
}

impl Revocations {
    pub(super) fn new(peers: &Peers) -> Self {
        Self { listeners: Mutex::default(), peers: peers.clone() }
    }

    pub(crate) fn listen(&self, listener: Listener) {
        self.listeners.lock().push(listener);
    }

    /// Calls every listener, also in other processes. To be called once the loss of rights is committed.
    pub(crate) fn announce(&self) {
        self.announce_here();
        self.peers.signal(Signal::Revocation);
    }

    /// Calls every listener in this process.
    pub(super) fn announce_here(&self) {
        let listeners = self.listeners.lock().clone();
        listeners.iter().for_each(|listener| listener());
    }
}
