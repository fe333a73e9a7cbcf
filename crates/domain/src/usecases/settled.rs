//! Notification of callers that wait for an operation to settle. Kept in memory only, and signals of other processes may be lost, so
//! waiting callers also poll.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::signals::{Peers, Signal};
use crate::entities::Operation;
use crate::values::OperationId;

type Tell = Box<dyn FnOnce(&Operation) + Send>;

/// The callers that wait for operations.
#[derive(Default)]
pub(crate) struct Settled {
    waiters: Mutex<SettlementWaiters>,
    peers: Peers,
}

#[derive(Default)]
struct SettlementWaiters {
    next: u64,
    operations: HashMap<OperationId, Vec<(u64, Tell)>>,
}

impl Settled {
    pub(super) fn new(peers: &Peers) -> Self {
        Self { waiters: Mutex::default(), peers: peers.clone() }
    }

    pub(super) fn watch(self: &Arc<Self>, id: OperationId, tell: Tell) -> SettlementWatch {
        let mut waiting = self.waiters.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.operations.entry(id).or_default().push((number, tell));
        SettlementWatch { settled: Arc::clone(self), id, number }
    }

    /// Notifies and removes the watches of an operation, also those in other processes. To be called once the settlement is visible to
    /// readers.
    pub(super) fn tell(&self, operation: &Operation) {
        self.tell_here(operation);
        self.peers.signal(Signal::Settled(operation.id));
    }

    /// Returns the operations that are watched, or the given one if it is.
    pub(super) fn watched(&self, only: Option<OperationId>) -> Vec<OperationId> {
        let waiters = self.waiters.lock();
        match only {
            Some(id) => waiters.operations.contains_key(&id).then_some(id).into_iter().collect(),
            None => waiters.operations.keys().copied().collect(),
        }
    }

    /// Notifies and removes the watches of an operation in this process.
    pub(super) fn tell_here(&self, operation: &Operation) {
        let told = self.waiters.lock().operations.remove(&operation.id);
        for (_, tell) in told.into_iter().flatten() {
            tell(operation);
        }
    }
}

/// A registration for the settlement of an operation, which ends when it is dropped.
pub struct SettlementWatch {
    settled: Arc<Settled>,
    id: OperationId,
    number: u64,
}

impl Drop for SettlementWatch {
    fn drop(&mut self) {
        let mut waiting = self.settled.waiters.lock();
        let Some(of_operation) = waiting.operations.get_mut(&self.id) else { return };
        of_operation.retain(|(number, _)| *number != self.number);
        if of_operation.is_empty() {
            waiting.operations.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, LazyLock};

    use super::{Settled, SettlementWatch};
    use crate::entities::{DatabaseLocator, Operation, OperationStatus, Work};
    use crate::values::{AccountId, DatabaseId, DatabaseName, OperationId, OwnerName, Timestamp};

    static ONE: LazyLock<OperationId> = LazyLock::new(|| OperationId::from_uuid(uuid::Uuid::from_u128(1)));
    static TWO: LazyLock<OperationId> = LazyLock::new(|| OperationId::from_uuid(uuid::Uuid::from_u128(2)));

    fn operation(id: OperationId) -> Operation {
        let some = uuid::Uuid::from_u128(7);
        Operation {
            id,
            database_id: DatabaseId::from_uuid(some),
            locator: DatabaseLocator {
                owner: OwnerName::parse("ada").unwrap(),
                name: DatabaseName::parse("engines").unwrap(),
            },
            work: Work::Fork {
                owner_id: AccountId::from_uuid(some),
                owner: OwnerName::parse("bob").unwrap(),
                fork_id: DatabaseId::from_uuid(some),
            },
            status: OperationStatus::Running,
            created_by: AccountId::from_uuid(some),
            created_by_name: OwnerName::parse("ada").unwrap(),
            created_at: Timestamp::from_micros(1),
            started_at: None,
            finished_at: None,
            attempts: 1,
            trace: None,
        }
    }

    fn count(settled: &Arc<Settled>, id: OperationId) -> (Arc<AtomicU32>, SettlementWatch) {
        let told = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&told);
        let watch = settled.watch(
            id,
            Box::new(move |operation: &Operation| {
                assert_eq!(operation.id, id);
                counted.fetch_add(1, Ordering::SeqCst);
            }),
        );
        (told, watch)
    }

    #[test]
    fn all_who_wait_for_an_operation_are_told_once() {
        let settled = Arc::new(Settled::default());
        let (first, _first) = count(&settled, *ONE);
        let (second, _second) = count(&settled, *ONE);
        let (other, _other) = count(&settled, *TWO);
        settled.tell(&operation(*ONE));
        settled.tell(&operation(*ONE));
        assert_eq!([first, second, other].map(|told| told.load(Ordering::SeqCst)), [1, 1, 0]);
    }

    #[test]
    fn who_waits_no_more_leaves_nothing_behind() {
        let settled = Arc::new(Settled::default());
        let (gone, watch) = count(&settled, *ONE);
        let (still, _still) = count(&settled, *ONE);
        drop(watch);
        settled.tell(&operation(*ONE));
        assert_eq!([gone, still].map(|told| told.load(Ordering::SeqCst)), [0, 1]);
        drop(count(&settled, *TWO));
        assert!(settled.waiters.lock().operations.is_empty());
    }
}
