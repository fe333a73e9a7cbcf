//! Deadlines, and the thread that interrupts calls that exceed them.
//!
//! The progress handler of a connection stops most statements. Some operations of the engine never call it, but all of
//! them check for an interrupt. The clock of a [`Deadline`] can be stopped, for example while rows wait for their
//! consumer.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_domain::ports::{CancellationToken, EngineError};
use parking_lot::{Condvar, Mutex};
use rusqlite::InterruptHandle;

use crate::memory::{MemoryBudget, MemoryLender};
use crate::yield_hook::{Long, WatchedCall};

const STOPPED: u64 = u64::MAX;
/// Interval between two checks while a deadline is watched.
const LOOK: Duration = Duration::from_millis(20);
/// Delay of a call of `go_on` from which a call counts as silent.
const SILENCE: Duration = Duration::from_millis(40);
/// Interval at which an overdue statement is interrupted again, because an interrupt between two statements is lost.
const AGAIN: Duration = Duration::from_millis(10);

/// A point in time that moves while the clock is stopped.
#[derive(Debug)]
pub(crate) struct Deadline {
    start: Instant,
    timeout: Duration,
    due_nanos: AtomicU64,
    expired: AtomicBool,
    canceled: CancellationToken,
    long: Option<Long>,
    call: Option<Arc<dyn WatchedCall>>,
    asks_nanos: AtomicU64,
    refused: AtomicBool,
}

impl Deadline {
    fn new(timeout: Duration, canceled: CancellationToken, long: Option<Long>) -> Self {
        Self {
            start: Instant::now(),
            timeout,
            due_nanos: AtomicU64::new(nanos(timeout)),
            expired: AtomicBool::new(false),
            canceled,
            asks_nanos: AtomicU64::new(long.as_ref().map_or(STOPPED, |long| nanos(long.every))),
            call: long.as_ref().and_then(|long| long.turns.call()),
            long,
            refused: AtomicBool::new(false),
        }
    }

    /// Returns `true` if the call has to end. Called regularly on the thread that computes.
    pub(crate) fn ends(&self) -> bool {
        self.expired() || self.refuses()
    }

    fn refuses(&self) -> bool {
        let Some(long) = &self.long else { return false };
        let computed = self.computed();
        if nanos(computed) < self.asks_nanos.load(Ordering::Relaxed) {
            return false;
        }
        let refused = self.stopped(|| long.turns.go_on(&self.canceled)).is_break();
        self.asks_nanos.store(nanos(computed + long.every), Ordering::Relaxed);
        if refused {
            self.refused.store(true, Ordering::Relaxed);
            self.expired.store(true, Ordering::Relaxed);
        }
        refused
    }

    /// Reports a call that computes and is overdue with its call of `go_on`. Called by the watchdog thread.
    fn tell_of_silence(&self) {
        if let Some(call) = &self.call
            && nanos(self.computed()) > self.asks_nanos.load(Ordering::Relaxed).saturating_add(nanos(SILENCE))
        {
            call.is_silent();
        }
    }

    /// Yields to other calls while this call waits for memory. Returns `false` if the call may not wait.
    pub(crate) fn pause(&self) -> bool {
        self.long.as_ref().is_none_or(|long| long.turns.pause().is_continue())
    }

    /// Returns the token that cancels the call.
    pub(crate) fn canceled(&self) -> &CancellationToken {
        &self.canceled
    }

    /// Returns the time that passed while the clock ran.
    fn computed(&self) -> Duration {
        self.timeout.saturating_sub(self.remaining())
    }

    /// Returns the reason if the call was ended early.
    pub(crate) fn ended(&self) -> Option<EngineError> {
        match self.expired() {
            false => None,
            true if self.refused.load(Ordering::Relaxed) => Some(EngineError::Busy),
            true => Some(EngineError::TimedOut(millis(self.timeout))),
        }
    }

    /// Returns `true` if the deadline was found to have expired. Only reads a flag, which the watchdog keeps up to
    /// date.
    pub(crate) fn is_over(&self) -> bool {
        self.expired.load(Ordering::Relaxed)
    }

    /// Returns `true` if the time ran out or the call was canceled. Stays `true` from then on.
    pub(crate) fn expired(&self) -> bool {
        if self.expired.load(Ordering::Relaxed) {
            return true;
        }
        let late = self.canceled.is_canceled() || nanos(self.start.elapsed()) >= self.due_nanos.load(Ordering::Relaxed);
        if late {
            self.expired.store(true, Ordering::Relaxed);
        }
        late
    }

    /// Runs `wait` with the clock stopped.
    pub(crate) fn stopped<T>(&self, wait: impl FnOnce() -> T) -> T {
        let due = self.due_nanos.swap(STOPPED, Ordering::Relaxed);
        let began = Instant::now();
        let result = wait();
        self.due_nanos.store(due.saturating_add(nanos(began.elapsed())).min(STOPPED - 1), Ordering::Relaxed);
        result
    }

    /// Returns the time that remains once the clock runs.
    pub(crate) fn remaining(&self) -> Duration {
        let due = self.due_nanos.load(Ordering::Relaxed);
        Duration::from_nanos(due.saturating_sub(nanos(self.start.elapsed())))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(STOPPED - 1).min(STOPPED - 1)
}

#[derive(Default)]
struct WatchedDeadline {
    next: u64,
    entries: HashMap<u64, (Arc<Deadline>, InterruptHandle)>,
    /// Whether nothing was watched when the thread went to sleep.
    asleep: bool,
    closing: bool,
}

#[derive(Default)]
struct WatchdogState {
    watched: Mutex<WatchedDeadline>,
    changed: Condvar,
}

impl WatchdogState {
    fn run(&self) {
        let mut watched = self.watched.lock();
        while !watched.closing {
            let mut wait = if watched.entries.is_empty() { Duration::from_secs(3600) } else { LOOK };
            for (deadline, handle) in watched.entries.values() {
                if deadline.expired() {
                    handle.interrupt();
                    wait = wait.min(AGAIN);
                } else {
                    deadline.tell_of_silence();
                    // A stopped clock may start and the call may be canceled at any time, so both are polled.
                    wait = wait.min(deadline.remaining().clamp(Duration::from_millis(1), LOOK));
                }
            }
            watched.asleep = watched.entries.is_empty();
            self.changed.wait_for(&mut watched, wait);
        }
    }
}

/// Owns the thread that checks all deadlines of an engine.
pub(crate) struct Watchdog {
    shared: Arc<WatchdogState>,
    thread: Option<thread::JoinHandle<()>>,
    long: Option<Long>,
    statement_memory: usize,
    pool: Arc<dyn MemoryLender>,
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Watchdog").field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl Watchdog {
    /// Starts the thread. Each watched call may take `statement_memory` bytes from `pool`.
    pub(crate) fn start(
        long: Option<Long>,
        statement_memory: usize,
        pool: Arc<dyn MemoryLender>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(WatchdogState::default());
        let watcher = Arc::clone(&shared);
        let thread = thread::Builder::new().name("engine-watchdog".into()).spawn(move || watcher.run())?;
        Ok(Self { shared, thread: Some(thread), long, statement_memory, pool })
    }

    /// Interrupts the connection of `handle` after `timeout` or when `canceled` is set, until the watch is dropped.
    pub(crate) fn watch(
        &self,
        handle: InterruptHandle,
        timeout: Duration,
        canceled: CancellationToken,
    ) -> DeadlineWatch {
        let deadline = Arc::new(Deadline::new(timeout, canceled, self.long.clone()));
        let memory = Arc::new(MemoryBudget::new(self.statement_memory, &self.pool, Arc::clone(&deadline)));
        watch(&self.shared, deadline, handle, memory)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.watched.lock().closing = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            drop(thread.join());
        }
    }
}

fn watch(
    shared: &Arc<WatchdogState>,
    deadline: Arc<Deadline>,
    handle: InterruptHandle,
    memory: Arc<MemoryBudget>,
) -> DeadlineWatch {
    let mut watched = shared.watched.lock();
    let id = watched.next;
    watched.next += 1;
    watched.entries.insert(id, (Arc::clone(&deadline), handle));
    // Waking the thread costs more than a short statement. A thread that is awake checks in time for all but the
    // shortest deadlines.
    let wake = std::mem::take(&mut watched.asleep) || deadline.timeout < LOOK;
    drop(watched);
    if wake {
        shared.changed.notify_one();
    }
    DeadlineWatch { shared: Arc::clone(shared), id, deadline, memory }
}

/// A handle that puts further connections under the same deadline.
#[derive(Clone)]
pub(crate) struct Follower {
    shared: Arc<WatchdogState>,
    deadline: Arc<Deadline>,
    memory: Arc<MemoryBudget>,
}

impl Follower {
    /// Interrupts the connection of `handle` as well when the time is over, until the watch is dropped.
    pub(crate) fn watch(&self, handle: InterruptHandle) -> DeadlineWatch {
        watch(&self.shared, Arc::clone(&self.deadline), handle, Arc::clone(&self.memory))
    }
}

/// A deadline under watch. No interrupt is sent after the watch is dropped.
pub(crate) struct DeadlineWatch {
    shared: Arc<WatchdogState>,
    id: u64,
    deadline: Arc<Deadline>,
    memory: Arc<MemoryBudget>,
}

impl DeadlineWatch {
    pub(crate) fn deadline(&self) -> &Arc<Deadline> {
        &self.deadline
    }

    /// Returns the memory budget of the watched call.
    pub(crate) fn memory(&self) -> &Arc<MemoryBudget> {
        &self.memory
    }

    /// Returns a handle for other connections that work for the same call.
    pub(crate) fn follower(&self) -> Follower {
        Follower {
            shared: Arc::clone(&self.shared),
            deadline: Arc::clone(&self.deadline),
            memory: Arc::clone(&self.memory),
        }
    }
}

impl Drop for DeadlineWatch {
    fn drop(&mut self) {
        self.shared.watched.lock().entries.remove(&self.id);
    }
}
