//! Turns of slow calls: which of them compute, and which is next.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_domain::ports::CancellationToken;

use super::{SlowPlaces, SlowQueryLimits};
use crate::caller_key::CallerKey;
use crate::sync::{Condvar, Mutex};

/// Interval at which a waiting call checks for cancellation.
const CANCELLATION_CHECK: Duration = Duration::from_millis(50);

/// The slow calls and their turns. Clones share their state.
#[derive(Clone)]
pub(super) struct Turns(Arc<SharedTurns>);

pub(super) struct SharedTurns {
    limits: SlowQueryLimits,
    pub(super) state: Mutex<TurnsState>,
    changed: Condvar,
}

#[derive(Default)]
pub(super) struct TurnsState {
    /// Slow calls, in whatever state.
    pub(super) calls: usize,
    /// Slow calls that have a turn.
    pub(super) computing: usize,
    /// Slow calls that have begun: all but those that wait for a place ([`SlowPlaces`]).
    begun: usize,
    /// Calls that wait for a turn, in the order in which they began to wait.
    pub(super) waiting: Vec<Ticket>,
    /// The callers that have slow calls.
    callers: HashMap<CallerKey, SlowCaller>,
    last_ticket: u64,
    /// Turns so far.
    turns: u64,
}

/// A call that waits for a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket {
    pub(super) number: u64,
    caller: CallerKey,
    /// Whether the call has had no turn yet.
    is_first: bool,
    /// Whether the call has begun. Otherwise it waits for a place.
    has_begun: bool,
}

/// The slow calls of a caller.
#[derive(Default)]
struct SlowCaller {
    calls: usize,
    begun: usize,
    computing: usize,
    /// Number of the caller's last turn among all turns; 0 before its first.
    last_turn: u64,
}

/// The permit of a slow call.
pub(super) struct SlowPermit {
    turns: Turns,
    caller: CallerKey,
    has_begun: bool,
    /// Ticket of the first turn, until the call asks for it.
    first: Option<u64>,
    joined: Instant,
    turn_began: Option<Instant>,
}

impl TurnsState {
    pub(super) fn add_ticket(&mut self, caller: CallerKey, is_first: bool, has_begun: bool) -> u64 {
        self.last_ticket += 1;
        self.waiting.push(Ticket { number: self.last_ticket, caller, is_first, has_begun });
        self.last_ticket
    }

    fn remove_ticket(&mut self, number: u64) {
        self.waiting.retain(|waiting| waiting.number != number);
    }

    /// Returns the ticket of the next turn. Callers take turns: next is the caller with the fewest calls that compute; among
    /// equals, the one whose last turn is longest ago. Of its calls, those without a turn so far precede the others. Calls that
    /// wait for a place are passed over.
    pub(super) fn next_ticket(&self) -> Option<u64> {
        let order = |waiting: &&Ticket| {
            let (computing, last_turn) =
                self.callers.get(&waiting.caller).map_or((0, 0), |caller| (caller.computing, caller.last_turn));
            (computing, last_turn, !waiting.is_first, waiting.number)
        };
        self.waiting.iter().filter(|waiting| waiting.has_begun).min_by_key(order).map(|waiting| waiting.number)
    }

    /// Assigns the free places to calls that wait for one: each to the caller with the fewest calls that have begun.
    fn fill_places(&mut self, places: SlowPlaces) {
        loop {
            let left = places.most.saturating_sub(self.begun);
            let waiting = self.waiting.iter().enumerate().filter(|(_, waiting)| !waiting.has_begun);
            let next = waiting.min_by_key(|(_, waiting)| self.begun_of(waiting.caller));
            let Some((at, caller)) = next.map(|(at, waiting)| (at, waiting.caller)) else { return };
            if left <= places.spare && self.begun_of(caller) >= left {
                return;
            }
            self.waiting[at].has_begun = true;
            self.begin_call(caller);
        }
    }

    fn begun_of(&self, caller: CallerKey) -> usize {
        self.callers.get(&caller).map_or(0, |caller| caller.begun)
    }

    /// Returns `true` if the call with this ticket has begun.
    fn has_begun(&self, ticket: u64) -> bool {
        self.waiting.iter().any(|waiting| waiting.number == ticket && waiting.has_begun)
    }

    pub(super) fn add_call(&mut self, caller: CallerKey, has_begun: bool) {
        self.calls += 1;
        self.callers.entry(caller).or_default().calls += 1;
        if has_begun {
            self.begin_call(caller);
        }
    }

    pub(super) fn begin_call(&mut self, caller: CallerKey) {
        self.begun += 1;
        self.callers.entry(caller).or_default().begun += 1;
    }

    fn remove_call(&mut self, caller: CallerKey, had_begun: bool) {
        self.calls -= 1;
        self.begun -= usize::from(had_begun);
        if let Some(left) = self.callers.get_mut(&caller) {
            left.calls -= 1;
            left.begun -= usize::from(had_begun);
            if left.calls == 0 {
                self.callers.remove(&caller);
            }
        }
    }

    pub(super) fn begin_turn(&mut self, caller: CallerKey) {
        self.computing += 1;
        self.turns += 1;
        let caller = self.callers.entry(caller).or_default();
        caller.computing += 1;
        caller.last_turn = self.turns;
    }

    fn end_turn(&mut self, caller: CallerKey) {
        self.computing -= 1;
        if let Some(caller) = self.callers.get_mut(&caller) {
            caller.computing -= 1;
        }
    }

    /// Returns `true` if there is no slow call.
    #[cfg(test)]
    pub(super) fn is_unused(&self) -> bool {
        (self.calls, self.computing, self.begun) == (0, 0, 0) && self.waiting.is_empty() && self.callers.is_empty()
    }
}

impl Turns {
    pub(super) fn new(limits: SlowQueryLimits) -> Self {
        Self(Arc::new(SharedTurns { limits, state: Mutex::default(), changed: Condvar::new() }))
    }

    /// Adds a slow call that waits for its first turn, and before for a place unless it has begun. Returns `None` if there are too
    /// many slow calls.
    pub(super) fn join_queue(&self, caller: CallerKey, has_begun: bool) -> Option<SlowPermit> {
        let has_begun = has_begun || self.0.limits.places.is_none();
        self.join(caller, has_begun, |state| (Some(state.add_ticket(caller, true, has_begun)), None))
    }

    /// Adds a slow call that has a turn at once, even if too many calls compute. Returns `None` if there are too many slow calls.
    pub(super) fn join_computing(&self, caller: CallerKey) -> Option<SlowPermit> {
        self.join(caller, true, |state| {
            state.begin_turn(caller);
            (None, Some(Instant::now()))
        })
    }

    /// Adds a slow call that has no turn until it asks for one. Returns `None` if there are too many slow calls.
    pub(super) fn join_paused(&self, caller: CallerKey) -> Option<SlowPermit> {
        self.join(caller, true, |_| (None, None))
    }

    fn join(
        &self,
        caller: CallerKey,
        has_begun: bool,
        begin: impl FnOnce(&mut TurnsState) -> (Option<u64>, Option<Instant>),
    ) -> Option<SlowPermit> {
        let mut state = self.0.state.lock();
        if state.calls >= self.0.limits.max_calls {
            return None;
        }
        state.add_call(caller, has_begun);
        let (first, turn_began) = begin(&mut state);
        drop(state);
        Some(SlowPermit { turns: self.clone(), caller, has_begun, first, joined: Instant::now(), turn_began })
    }

    #[cfg(test)]
    pub(super) fn state(&self) -> crate::sync::MutexGuard<'_, TurnsState> {
        self.0.state.lock()
    }
}

impl SlowPermit {
    /// Continues the current turn, or waits for one.
    pub(super) fn take_turn(&mut self, canceled: &CancellationToken) -> ControlFlow<()> {
        let SharedTurns { limits, state, changed } = &*self.turns.0;
        let mut state = state.lock();
        if let Some(began) = self.turn_began {
            if state.waiting.is_empty() || began.elapsed() < limits.turn {
                return ControlFlow::Continue(());
            }
            // The lock is held until the call has its ticket, so that no other caller has several turns in between.
            self.turn_began = None;
            state.end_turn(self.caller);
            changed.notify_all();
        }
        let ticket = self.first.take();
        let ticket = ticket.unwrap_or_else(|| state.add_ticket(self.caller, false, self.has_begun));
        let flow = loop {
            if let Some(places) = limits.places
                && !self.has_begun
            {
                state.fill_places(places);
                self.has_begun = state.has_begun(ticket);
            }
            if state.computing < limits.max_computing && state.next_ticket() == Some(ticket) {
                state.begin_turn(self.caller);
                self.turn_began = Some(Instant::now());
                break ControlFlow::Continue(());
            }
            // Only a call without a place is refused. A call that has begun may have begun its response.
            if canceled.is_canceled() || (!self.has_begun && self.joined.elapsed() >= limits.max_wait) {
                break ControlFlow::Break(());
            }
            changed.wait_for(&mut state, CANCELLATION_CHECK);
        };
        state.remove_ticket(ticket);
        drop(state);
        // The ticket that is next now may also have its turn.
        changed.notify_all();
        flow
    }

    /// Ends the current turn, if there is one.
    pub(super) fn end_turn(&mut self) {
        if self.turn_began.take().is_some() {
            self.turns.0.state.lock().end_turn(self.caller);
            self.turns.0.changed.notify_all();
        }
    }
}

impl Drop for SlowPermit {
    fn drop(&mut self) {
        self.end_turn();
        let mut state = self.turns.0.state.lock();
        let mut has_begun = self.has_begun;
        if let Some(first) = self.first.take() {
            // Another call may have given this one its place.
            has_begun |= state.has_begun(first);
            state.remove_ticket(first);
        }
        state.remove_call(self.caller, has_begun);
        drop(state);
        // Another ticket may be next now, also because there is a place for it.
        self.turns.0.changed.notify_all();
    }
}
