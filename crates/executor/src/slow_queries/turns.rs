//! Turns of slow calls: which of them compute, and which is next.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_domain::ports::CancellationToken;

use super::SlowQueryLimits;
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
    /// Tickets of calls that wait for their first turn. They precede `again`.
    pub(super) first: VecDeque<u64>,
    /// Tickets of calls that wait for another turn.
    pub(super) again: VecDeque<u64>,
    last_ticket: u64,
    /// Moving average of the length of turns, as waiting calls saw it. On a busy machine, a computing call notices the end of its
    /// turn late.
    pace: Duration,
}

/// The permit of a slow call.
pub(super) struct SlowPermit {
    turns: Turns,
    /// Present until the first turn begins or is given up.
    first: Option<FirstTurn>,
    turn_began: Option<Instant>,
}

/// A call's wait for its first turn.
struct FirstTurn {
    ticket: u64,
    /// Estimated turns of other calls before this one.
    turns: u32,
    since: Instant,
}

impl TurnsState {
    /// Records that a call waited for `time` while others had `turns` turns.
    pub(super) fn record_wait(&mut self, turns: u32, time: Duration, max_wait: Duration) {
        if turns > 0 {
            // The cap lets at least one call wait. Otherwise no new measurement could show that turns have become shorter.
            self.pace = ((self.pace * 3 + time / turns) / 4).min(max_wait / 2);
        }
    }

    fn new_ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    pub(super) fn is_next(&self, ticket: u64) -> bool {
        self.first.front().or(self.again.front()) == Some(&ticket)
    }
}

impl Turns {
    pub(super) fn new(limits: SlowQueryLimits) -> Self {
        Self(Arc::new(SharedTurns { limits, state: Mutex::default(), changed: Condvar::new() }))
    }

    /// Adds a slow call that waits for its first turn, after the calls that already do. Returns `None` if there are too many slow
    /// calls, or if the first turn would come too late.
    pub(super) fn join_queue(&self) -> Option<SlowPermit> {
        let SlowQueryLimits { max_computing, max_calls, max_wait, turn, .. } = self.0.limits;
        let mut state = self.0.state.lock();
        // The calls that compute now may each have a whole turn left.
        let turns = u32::try_from((state.computing + state.first.len()) / max_computing.max(1)).unwrap_or(u32::MAX);
        // Turns end a little late. A turn that is due at the very end of the wait would come after it.
        let too_late = turns > 0 && turn.max(state.pace).saturating_mul(turns) >= max_wait;
        if state.calls >= max_calls || too_late {
            return None;
        }
        state.calls += 1;
        let ticket = state.new_ticket();
        state.first.push_back(ticket);
        drop(state);
        let first = FirstTurn { ticket, turns, since: Instant::now() };
        Some(SlowPermit { turns: self.clone(), first: Some(first), turn_began: None })
    }

    /// Adds a slow call that has a turn at once, even if too many calls compute. Returns `None` if there are too many slow calls.
    pub(super) fn join_computing(&self) -> Option<SlowPermit> {
        self.join(Some(Instant::now()))
    }

    /// Adds a slow call that has no turn until it asks for one. Returns `None` if there are too many slow calls.
    pub(super) fn join_paused(&self) -> Option<SlowPermit> {
        self.join(None)
    }

    fn join(&self, turn_began: Option<Instant>) -> Option<SlowPermit> {
        let mut state = self.0.state.lock();
        if state.calls >= self.0.limits.max_calls {
            return None;
        }
        state.calls += 1;
        state.computing += usize::from(turn_began.is_some());
        Some(SlowPermit { turns: self.clone(), first: None, turn_began })
    }

    #[cfg(test)]
    pub(super) fn state(&self) -> crate::sync::MutexGuard<'_, TurnsState> {
        self.0.state.lock()
    }
}

impl SlowPermit {
    /// Continues the current turn, or waits for one.
    pub(super) fn take_turn(&mut self, canceled: &CancellationToken) -> ControlFlow<()> {
        if let Some(began) = self.turn_began {
            let state = self.turns.0.state.lock();
            let others_wait = !(state.first.is_empty() && state.again.is_empty());
            drop(state);
            if !others_wait || began.elapsed() < self.turns.0.limits.turn {
                return ControlFlow::Continue(());
            }
            self.end_turn();
        }
        self.wait_for_turn(canceled)
    }

    fn wait_for_turn(&mut self, canceled: &CancellationToken) -> ControlFlow<()> {
        let SharedTurns { limits, state, changed } = &*self.turns.0;
        let mut state = state.lock();
        // Only a call without a first turn is refused. A call that may have begun its response continues.
        let first = self.first.take();
        let until = first.as_ref().map(|first| first.since + limits.max_wait);
        let ticket = if let Some(first) = &first {
            first.ticket
        } else {
            let ticket = state.new_ticket();
            state.again.push_back(ticket);
            ticket
        };
        let flow = loop {
            if state.computing < limits.max_computing && state.is_next(ticket) {
                state.computing += 1;
                self.turn_began = Some(Instant::now());
                break ControlFlow::Continue(());
            }
            if canceled.is_canceled() || until.is_some_and(|until| Instant::now() >= until) {
                break ControlFlow::Break(());
            }
            changed.wait_for(&mut state, CANCELLATION_CHECK);
        };
        state.first.retain(|waiting| *waiting != ticket);
        state.again.retain(|waiting| *waiting != ticket);
        if let Some(FirstTurn { turns, since, .. }) = first
            && !canceled.is_canceled()
        {
            state.record_wait(turns, since.elapsed(), limits.max_wait);
        }
        drop(state);
        // The ticket that is first now may also have its turn.
        changed.notify_all();
        flow
    }

    /// Ends the current turn, if there is one.
    pub(super) fn end_turn(&mut self) {
        if self.turn_began.take().is_some() {
            self.turns.0.state.lock().computing -= 1;
            self.turns.0.changed.notify_all();
        }
    }
}

impl Drop for SlowPermit {
    fn drop(&mut self) {
        self.end_turn();
        let mut state = self.turns.0.state.lock();
        state.calls -= 1;
        if let Some(first) = &self.first {
            state.first.retain(|waiting| *waiting != first.ticket);
        }
    }
}
