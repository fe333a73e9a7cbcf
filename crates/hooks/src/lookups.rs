//! Limits the concurrent look-ups of names for the registration of hooks.

use std::collections::HashMap;
use std::sync::Arc;

use branchyard_domain::ports::AddressError;
use branchyard_domain::values::AccountId;
use parking_lot::{Mutex, MutexGuard};

/// Maximum number of concurrent look-ups. Each has a thread until the resolver answers.
const LOOKUPS: usize = 64;
/// Maximum number of concurrent look-ups of one caller.
const PER_CALLER: usize = 2;

/// Counts the running look-ups. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lookups(Arc<Mutex<HashMap<AccountId, usize>>>);

impl Lookups {
    fn running(&self) -> MutexGuard<'_, HashMap<AccountId, usize>> {
        self.0.lock()
    }

    /// Starts a look-up of this caller, which counts until the result is dropped.
    ///
    /// # Errors
    /// [`AddressError::TooManyLookups`], [`AddressError::Busy`].
    pub(crate) fn begin(&self, caller: AccountId) -> Result<Lookup, AddressError> {
        let mut running = self.running();
        if running.get(&caller).is_some_and(|own| *own >= PER_CALLER) {
            return Err(AddressError::TooManyLookups(PER_CALLER));
        }
        if running.values().sum::<usize>() >= LOOKUPS {
            return Err(AddressError::Busy);
        }
        *running.entry(caller).or_default() += 1;
        Ok(Lookup { lookups: self.clone(), caller })
    }
}

/// A running look-up.
#[derive(Debug)]
pub(crate) struct Lookup {
    lookups: Lookups,
    caller: AccountId,
}

impl Drop for Lookup {
    fn drop(&mut self) {
        let mut running = self.lookups.running();
        if let Some(own) = running.get_mut(&self.caller) {
            *own -= 1;
            if *own == 0 {
                running.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use branchyard_domain::ports::AddressError;
    use branchyard_domain::values::AccountId;

    use super::{LOOKUPS, Lookups, PER_CALLER};

    #[test]
    fn each_caller_has_a_few_and_all_together_have_no_more_than_there_are() {
        let lookups = Lookups::default();
        let mut running = Vec::new();
        let callers = (LOOKUPS / PER_CALLER) as u128;
        let caller = |n| AccountId::from_uuid(uuid::Uuid::from_u128(n));
        for n in 0..callers {
            running.extend((0..PER_CALLER).map(|_| lookups.begin(caller(n)).unwrap()));
            assert_eq!(lookups.begin(caller(n)).unwrap_err(), AddressError::TooManyLookups(PER_CALLER));
        }
        assert_eq!(lookups.begin(caller(callers)).unwrap_err(), AddressError::Busy);
        running.pop();
        drop(lookups.begin(caller(callers)).unwrap());
        running.clear();
        assert!(lookups.running().is_empty());
    }
}
