//! Fair shares of this process's workers for the creators of operations.
//!
//! Creators take turns, each has at most half of the workers, and a long-running operation leaves its worker. All state is
//! in memory only: each process has its own workers, so no process needs to know what others run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::entities::Operation;
use crate::ports::LeaseTurn;
use crate::values::AccountId;

/// Maximum number of long-running operations in one process. Beyond it, operations stay with their workers.
const LONG_MAX: usize = 64;

/// The workers of a process and the operations they run.
pub(crate) struct WorkerShares {
    workers: usize,
    long_places: usize,
    state: Mutex<SharesState>,
}

#[derive(Default)]
struct SharesState {
    /// Creator of the most recently leased operation.
    last: Option<AccountId>,
    creators: BTreeMap<AccountId, RunningOperations>,
    /// Creators at their limit when a worker last found nothing to run.
    passed_over: Vec<AccountId>,
}

/// The running operations of one creator.
#[derive(Default)]
struct RunningOperations {
    on_workers: usize,
    long: usize,
}

impl SharesState {
    fn on_workers(&self) -> usize {
        self.creators.values().map(|running| running.on_workers).sum()
    }

    fn long(&self) -> usize {
        self.creators.values().map(|running| running.long).sum()
    }
}

impl WorkerShares {
    /// Creates shares for `workers` workers and `long_places` places in the long lane. 0 means no limit.
    pub(super) fn new(workers: usize, long_places: usize) -> Self {
        let or_any = |limit| if limit == 0 { usize::MAX } else { limit };
        Self { workers: or_any(workers), long_places: or_any(long_places), state: Mutex::default() }
    }

    /// Returns the creators that get no further operation now. A creator with a long-running operation waits for a place in
    /// the long lane, since its next operation may need one. Other creators do not, so that no creator waits for the
    /// long-running operations of another.
    fn at_their_limit(&self, state: &SharesState) -> Vec<AccountId> {
        let per_creator = (self.workers / 2).max(1);
        let lane_is_full = state.long() >= self.long_places;
        let is_full =
            |running: &RunningOperations| running.on_workers >= per_creator || (running.long > 0 && lane_is_full);
        state.creators.iter().filter(|(_, running)| is_full(running)).map(|(creator, _)| *creator).collect()
    }

    /// Returns `true` if a worker is free.
    pub(super) fn has_free_worker(&self) -> bool {
        self.state.lock().on_workers() < self.workers
    }

    /// Takes a worker for the operation that `lease` leases. The lock is held meanwhile, so that the limits hold within the
    /// process.
    pub(super) fn take<E>(
        &self,
        lease: impl FnOnce(LeaseTurn<'_>) -> Result<Option<Operation>, E>,
    ) -> Result<Option<(Operation, WorkerPlace<'_>)>, E> {
        let mut state = self.state.lock();
        if state.on_workers() >= self.workers {
            return Ok(None);
        }
        let without = self.at_their_limit(&state);
        let Some(operation) = lease(LeaseTurn { after: state.last, without: &without, kind: None })? else {
            state.passed_over = without;
            return Ok(None);
        };
        let creator = operation.created_by;
        state.last = Some(creator);
        state.creators.entry(creator).or_default().on_workers += 1;
        Ok(Some((operation, WorkerPlace { shares: self, creator, is_long: AtomicBool::new(false) })))
    }

    /// Returns `true` if a creator that was passed over may have an operation run now. Another worker then has to look for
    /// work: the worker that ended an operation looks once, and may have leased one of another creator.
    pub(super) fn has_missed_some(&self) -> bool {
        let mut state = self.state.lock();
        let full = self.at_their_limit(&state);
        let missed = state.passed_over.iter().any(|creator| !full.contains(creator));
        if missed {
            state.passed_over.clear();
        }
        missed
    }
}

/// The place of a running operation, on a worker or in the long lane. Dropping it frees the place.
pub(super) struct WorkerPlace<'a> {
    shares: &'a WorkerShares,
    creator: AccountId,
    is_long: AtomicBool,
}

impl WorkerPlace<'_> {
    /// Returns `true` if the operation is in the long lane.
    pub(super) fn is_long(&self) -> bool {
        self.is_long.load(Ordering::Relaxed)
    }

    /// Frees the worker and moves the operation to the long lane. Returns `false` if the lane is full.
    pub(super) fn become_long(&self) -> bool {
        let mut state = self.shares.state.lock();
        if state.long() >= LONG_MAX {
            return false;
        }
        if let Some(running) = state.creators.get_mut(&self.creator) {
            running.on_workers -= 1;
            running.long += 1;
        }
        self.is_long.store(true, Ordering::Relaxed);
        true
    }
}

impl Drop for WorkerPlace<'_> {
    fn drop(&mut self) {
        let mut state = self.shares.state.lock();
        let Some(running) = state.creators.get_mut(&self.creator) else { return };
        match self.is_long() {
            true => running.long -= 1,
            false => running.on_workers -= 1,
        }
        if running.on_workers + running.long == 0 {
            state.creators.remove(&self.creator);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LONG_MAX, WorkerPlace, WorkerShares};
    use crate::entities::{DatabaseLocator, Operation, OperationStatus, Work};
    use crate::ports::LeaseTurn;
    use crate::values::{AccountId, DatabaseId, DatabaseName, OperationId, OwnerName, Timestamp};
    use uuid::Uuid;

    fn account(n: u128) -> AccountId {
        AccountId::from_uuid(Uuid::from_u128(n))
    }

    fn operation(creator: u128) -> Operation {
        let some = Uuid::from_u128(7);
        Operation {
            id: OperationId::from_uuid(some),
            database_id: DatabaseId::from_uuid(some),
            locator: DatabaseLocator {
                owner: OwnerName::parse("ada").unwrap(),
                name: DatabaseName::parse("engines").unwrap(),
            },
            work: Work::Fork {
                owner_id: account(creator),
                owner: OwnerName::parse("bob").unwrap(),
                fork_id: DatabaseId::from_uuid(some),
            },
            status: OperationStatus::Running,
            created_by: account(creator),
            created_by_name: OwnerName::parse("ada").unwrap(),
            created_at: Timestamp::from_micros(1),
            started_at: None,
            finished_at: None,
            attempts: 1,
            trace: None,
        }
    }

    /// Takes a worker for an operation of this creator, unless the creator is at its limit.
    fn take(shares: &WorkerShares, creator: u128) -> Option<WorkerPlace<'_>> {
        let lease =
            |turn: LeaseTurn<'_>| Ok::<_, ()>((!turn.without.contains(&account(creator))).then(|| operation(creator)));
        shares.take(lease).unwrap().map(|(_, place)| place)
    }

    #[test]
    fn a_creator_has_half_of_the_workers() {
        for (workers, most) in [(1, 1), (2, 1), (3, 1), (4, 2), (9, 4)] {
            let shares = WorkerShares::new(workers, 1);
            let taken: Vec<_> = std::iter::from_fn(|| take(&shares, 1)).collect();
            assert_eq!(taken.len(), most, "of {workers}");
            assert_eq!(take(&shares, 2).is_some(), workers > 1);
            drop(taken);
            assert!(take(&shares, 1).is_some());
        }
    }

    #[test]
    fn turns_go_on_after_the_creator_of_the_last_one() {
        let shares = WorkerShares::new(4, 1);
        let _first = take(&shares, 5).unwrap();
        let seen = |turn: LeaseTurn<'_>| {
            assert_eq!(turn.after, Some(account(5)));
            Ok::<_, ()>(None)
        };
        assert!(shares.take(seen).unwrap().is_none());
    }

    #[test]
    fn long_ones_of_a_creator_wait_for_a_place_and_those_of_others_do_not() {
        let shares = WorkerShares::new(2, 2);
        let mut long = Vec::new();
        for _ in 0..2 {
            let place = take(&shares, 1).unwrap();
            assert!(place.become_long());
            long.push(place);
        }
        assert!(take(&shares, 1).is_none(), "both places are taken");
        for creator in 2..20 {
            let place = take(&shares, creator).unwrap();
            assert!(place.become_long());
            assert!(take(&shares, creator).is_none());
            long.push(place);
        }
        long.drain(..19);
        assert!(take(&shares, 1).is_some());
    }

    #[test]
    fn the_long_lane_is_bounded() {
        let shares = WorkerShares::new(2, 2);
        let long: Vec<_> = (0..LONG_MAX)
            .map(|creator| take(&shares, creator as u128).unwrap())
            .inspect(|place| assert!(place.become_long()))
            .collect();
        let stays = take(&shares, 1_000).unwrap();
        assert!(!stays.become_long());
        let other = take(&shares, 1_001).unwrap();
        assert!(take(&shares, 1_002).is_none() && !shares.has_free_worker(), "both workers are taken");
        drop(long);
        assert!(stays.become_long());
        drop((stays, other));
        assert!(shares.state.lock().creators.is_empty());
    }

    #[test]
    fn creators_passed_over_are_looked_for_again_once_there_is_room() {
        let shares = WorkerShares::new(4, 1);
        let (first, second) = (take(&shares, 1).unwrap(), take(&shares, 1).unwrap());
        assert!(take(&shares, 1).is_none());
        assert!(!shares.has_missed_some(), "it is still at its limit");
        drop(first);
        assert!(shares.has_missed_some());
        assert!(!shares.has_missed_some(), "another worker looks already");
        assert!(take(&shares, 2).is_some());
        drop(second);
    }
}
