//! The queue of a pool: which calls wait, which of them is next, and how many calls each caller may have.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Admitted, Grant, PoolError};
use crate::caller_key::CallerKey;

/// How callers share the slots of a [`Pool`](super::Pool).
///
/// The share of a caller is the number of slots divided by the number of active callers, at least one. A caller is active while a
/// call of it is in progress or waits. All calls in progress count, also slow calls, which have released their slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FairShares {
    /// Maximum calls of a caller in progress while calls of other callers wait, if that is less than the share.
    pub while_others_wait: usize,
    /// Maximum calls of a caller in the queue.
    pub queued: usize,
}

/// Slots, permits and waiting calls of a pool.
pub(super) struct PoolState {
    size: usize,
    queue_length: usize,
    pub(super) shares: Option<FairShares>,
    pub(super) free: usize,
    /// Permits left for calls that compute.
    pub(super) permits: usize,
    /// Calls that wait for a slot, in order of arrival.
    waiting: VecDeque<Waiter>,
    /// Calls that hold a slot and wait for a permit. They precede new calls.
    pub(super) resuming: VecDeque<Arc<Grant>>,
    /// The active callers.
    callers: HashMap<CallerKey, CallerLoad>,
    last_number: u64,
    pub(super) refused: u64,
}

/// The calls of an active caller.
#[derive(Debug, Clone, Copy, Default)]
struct CallerLoad {
    in_progress: usize,
    queued: usize,
}

pub(super) struct Waiter {
    number: u64,
    pub(super) caller: CallerKey,
    pub(super) sender: oneshot::Sender<Admitted>,
}

impl PoolState {
    pub(super) fn new(size: usize, queue_length: usize) -> Self {
        Self {
            size,
            queue_length,
            shares: None,
            free: size,
            permits: size,
            waiting: VecDeque::new(),
            resuming: VecDeque::new(),
            callers: HashMap::new(),
            last_number: 0,
            refused: 0,
        }
    }

    /// Returns the number of calls that wait for a slot.
    pub(super) fn queued(&self) -> usize {
        self.waiting.iter().filter(|waiting| !waiting.sender.is_closed()).count()
    }

    /// Returns `true` if a new call of this caller need not wait.
    pub(super) fn admits_now(&self, caller: CallerKey) -> bool {
        self.free > 0 && self.permits > 0 && !self.is_share_in_use(caller)
    }

    /// Records that a call of this caller has a slot and a permit from now on.
    pub(super) fn begin(&mut self, caller: CallerKey) {
        self.free -= 1;
        self.permits -= 1;
        self.callers.entry(caller).or_default().in_progress += 1;
    }

    /// Records the end of a call of this caller, which has released its slot.
    pub(super) fn end(&mut self, caller: CallerKey) {
        self.change(caller, |load| load.in_progress -= 1);
    }

    /// Adds a call of this caller to the queue. Returns its number, and the receiver of its slot.
    pub(super) fn push(&mut self, caller: CallerKey) -> Result<(u64, oneshot::Receiver<Admitted>), PoolError> {
        let own = self.load(caller).queued;
        if let Some(shares) = self.shares.filter(|shares| own >= shares.queued) {
            return Err(PoolError::CallerQueueFull(shares.queued));
        }
        if self.waiting.len() >= self.queue_length && !self.make_room(own) {
            return Err(PoolError::Full);
        }
        let (sender, receiver) = oneshot::channel();
        self.last_number += 1;
        let number = self.last_number;
        self.waiting.push_back(Waiter { number, caller, sender });
        self.callers.entry(caller).or_default().queued += 1;
        Ok((number, receiver))
    }

    /// Removes a call from the queue, if it still waits.
    pub(super) fn remove(&mut self, number: u64) {
        let at = self.waiting.iter().position(|waiting| waiting.number == number);
        drop(at.and_then(|at| self.take(at)));
    }

    /// Takes the next call that may begin: of the callers below their limit, the one with the fewest calls in progress; among
    /// equals, the call that came first.
    pub(super) fn take_next(&mut self) -> Option<Waiter> {
        if self.free == 0 {
            return None;
        }
        let waiting = self.waiting.iter().enumerate();
        let ready = waiting.filter(|(_, waiting)| !waiting.sender.is_closed() && !self.is_share_in_use(waiting.caller));
        let (next, _) = ready.min_by_key(|(_, waiting)| self.load(waiting.caller).in_progress)?;
        self.take(next)
    }

    /// Returns `true` if a caller has as many calls in progress as its share allows.
    pub(super) fn is_share_in_use(&self, caller: CallerKey) -> bool {
        self.load(caller).in_progress >= self.limit(caller)
    }

    /// Returns how many calls this caller may have in progress.
    fn limit(&self, caller: CallerKey) -> usize {
        let Some(shares) = self.shares else { return usize::MAX };
        let active = self.callers.len() + usize::from(!self.callers.contains_key(&caller));
        let share = (self.size / active).max(1);
        let others_wait = self.waiting.len() > self.load(caller).queued;
        if others_wait { share.min(shares.while_others_wait).max(1) } else { share }
    }

    /// Makes room in a full queue for a caller with `own` queued calls. Refuses the newest queued call of the caller with the most
    /// queued calls, if those are more than this caller would have with the new call. Returns `false` otherwise.
    fn make_room(&mut self, own: usize) -> bool {
        let Some((&most, load)) = self.callers.iter().max_by_key(|(_, load)| load.queued) else { return false };
        if load.queued <= own + 1 {
            return false;
        }
        let last = self.waiting.iter().rposition(|waiting| waiting.caller == most);
        last.and_then(|last| self.take(last)).is_some()
    }

    fn take(&mut self, at: usize) -> Option<Waiter> {
        let taken = self.waiting.remove(at)?;
        self.change(taken.caller, |load| load.queued -= 1);
        Some(taken)
    }

    fn load(&self, caller: CallerKey) -> CallerLoad {
        self.callers.get(&caller).copied().unwrap_or_default()
    }

    /// Changes the load of an active caller, and forgets a caller that is no longer active.
    fn change(&mut self, caller: CallerKey, change: impl FnOnce(&mut CallerLoad)) {
        if let Some(load) = self.callers.get_mut(&caller) {
            change(load);
            if load.in_progress == 0 && load.queued == 0 {
                self.callers.remove(&caller);
            }
        }
    }

    /// Returns `true` if no call is in progress or waits.
    #[cfg(test)]
    pub(super) fn is_unused(&self) -> bool {
        self.callers.is_empty() && self.waiting.is_empty() && self.resuming.is_empty()
    }
}

#[cfg(test)]
mod tests;
