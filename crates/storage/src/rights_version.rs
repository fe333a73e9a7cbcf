//! The version of what permissions follow from, which most transactions leave as it is.
//!
//! The [version of the store](crate::version) changes with every commit of any process. Writers of this process say
//! whether their transaction may have changed anything that permissions follow from; if it has not, the rights of the
//! version before hold for the version after it too. Whether another process committed in between shows in the counter
//! of commits.

use parking_lot::Mutex;

use crate::version::{StoreVersion, Version};

#[derive(Debug, Default)]
struct Known {
    /// The version of the store that `rights` belongs to. `None` while it is unknown.
    store: Option<u64>,
    rights: u64,
}

/// The version of the rights in this process.
#[derive(Debug, Default)]
pub(crate) struct RightsVersion(Mutex<Known>);

impl RightsVersion {
    /// Returns the version of the rights that belongs to a version of the store, if it is known.
    pub(crate) fn of(&self, store: u64) -> Option<u64> {
        let known = self.0.lock();
        (known.store == Some(store)).then_some(known.rights)
    }

    /// Begins a transaction of the one writer. Returns the version of the store that the transaction changes.
    pub(crate) fn begin(&self, version: &Version) -> Option<StoreVersion> {
        let store = version.look();
        let mut known = self.0.lock();
        if known.store.is_none() || known.store != store.map(|store| store.hash) {
            // Another process may have changed anything.
            known.rights += 1;
            known.store = store.map(|store| store.hash);
        }
        store
    }

    /// Records that the writer is about to commit changes of rights.
    pub(crate) fn change(&self) {
        let mut known = self.0.lock();
        (known.store, known.rights) = (None, known.rights + 1);
    }

    /// Records that the writer has committed a transaction that began at the version `before`.
    pub(crate) fn committed(&self, version: &Version, before: Option<StoreVersion>) {
        let now = version.look();
        let only_ours = before.zip(now).is_some_and(|(before, now)| now.commits.wrapping_sub(before.commits) <= 1);
        self.0.lock().store = now.filter(|_| only_ours).map(|now| now.hash);
    }
}
