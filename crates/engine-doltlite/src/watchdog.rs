//! Deadlines: one thread interrupts whatever computes for too long.
//!
//! The progress handler of a connection stops most statements by itself; some calls of the engine never ask it, but all look for
//! an interrupt. The clock of a [`Deadline`] can be stopped, while rows wait for whoever takes them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_domain::ports::Canceled;
use rusqlite::InterruptHandle;

const STOPPED: u64 = u64::MAX;
/// How often an overdue statement is interrupted again: an interrupt between two statements is lost.
const AGAIN: Duration = Duration::from_millis(10);

/// A point in time that moves when the clock is stopped.
#[derive(Debug)]
pub(crate) struct Deadline {
    start: Instant,
    due_nanos: AtomicU64,
    expired: AtomicBool,
    canceled: Canceled,
}

impl Deadline {
    fn new(timeout: Duration, canceled: Canceled) -> Self {
        let due_nanos = AtomicU64::new(nanos(timeout));
        Self { start: Instant::now(), due_nanos, expired: AtomicBool::new(false), canceled }
    }

    /// Whether time ran out, or nobody waits any more; stays true.
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

    /// The time that is left, once the clock runs.
    pub(crate) fn remaining(&self) -> Duration {
        let due = self.due_nanos.load(Ordering::Relaxed);
        Duration::from_nanos(due.saturating_sub(nanos(self.start.elapsed())))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(STOPPED - 1).min(STOPPED - 1)
}

#[derive(Default)]
struct Watched {
    next: u64,
    entries: HashMap<u64, (Arc<Deadline>, InterruptHandle)>,
    closing: bool,
}

#[derive(Default)]
struct Shared {
    watched: Mutex<Watched>,
    changed: Condvar,
}

impl Shared {
    fn run(&self) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        while !watched.closing {
            let mut wait = Duration::from_secs(3600);
            for (deadline, handle) in watched.entries.values() {
                if deadline.expired() {
                    handle.interrupt();
                    wait = wait.min(AGAIN);
                } else {
                    // A stopped clock may start again at any time, and so may the wish to cancel: look from time to time.
                    wait = wait.min(deadline.remaining().clamp(Duration::from_millis(1), Duration::from_millis(50)));
                }
            }
            watched = self.changed.wait_timeout(watched, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The thread that looks at all deadlines of an engine.
pub(crate) struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Watchdog {
    pub(crate) fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let watcher = Arc::clone(&shared);
        let thread = thread::Builder::new().name("engine-watchdog".into()).spawn(move || watcher.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Interrupts the connection of `handle` once `timeout` is over or `canceled` says so, until the watch is dropped.
    pub(crate) fn watch(&self, handle: InterruptHandle, timeout: Duration, canceled: Canceled) -> Watch {
        let deadline = Arc::new(Deadline::new(timeout, canceled));
        let mut watched = self.shared.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let id = watched.next;
        watched.next += 1;
        watched.entries.insert(id, (Arc::clone(&deadline), handle));
        drop(watched);
        self.shared.changed.notify_one();
        Watch { shared: Arc::clone(&self.shared), id, deadline }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.watched.lock().unwrap_or_else(PoisonError::into_inner).closing = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            drop(thread.join());
        }
    }
}

/// A deadline under watch. No interrupt is sent after it was dropped.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    id: u64,
    deadline: Arc<Deadline>,
}

impl Watch {
    pub(crate) fn deadline(&self) -> &Arc<Deadline> {
        &self.deadline
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.watched.lock().unwrap_or_else(PoisonError::into_inner).entries.remove(&self.id);
    }
}
