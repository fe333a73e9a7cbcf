//! A turn whose statements have run and that is being settled, while the next turn builds on it.

use parking_lot::{Condvar, Mutex};

use crate::values::{CommitHash, RefName};

/// The turn that is being settled.
pub(super) struct Settling {
    /// The branch of its writes.
    pub(super) branch: RefName,
    /// The head that the branch is about to get.
    pub(super) head: CommitHash,
    has_settled: Mutex<Option<bool>>,
    ended: Condvar,
}

impl Settling {
    pub(super) fn new(branch: RefName, head: CommitHash) -> Self {
        Self { branch, head, has_settled: Mutex::default(), ended: Condvar::new() }
    }

    /// Records whether the turn has settled. Only the first call counts.
    pub(super) fn end(&self, has_settled: bool) {
        self.has_settled.lock().get_or_insert(has_settled);
        self.ended.notify_all();
    }

    /// Waits for the end. Returns whether the turn has settled.
    pub(super) fn wait(&self) -> bool {
        let mut has_settled = self.has_settled.lock();
        loop {
            if let Some(has_settled) = *has_settled {
                return has_settled;
            }
            self.ended.wait(&mut has_settled);
        }
    }
}
