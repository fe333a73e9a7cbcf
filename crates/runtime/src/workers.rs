//! Worker threads that run operations, and the thread that removes expired data.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use branchyard_domain::Hub;
use branchyard_domain::errors::PortError;
use branchyard_domain::ports::EngineError;
use parking_lot::{Mutex, MutexGuard};

use crate::observer::Observer;

/// Maximum sleep of an idle worker. Bounds how late a worker finds an operation that another process queued.
const IDLE: Duration = Duration::from_secs(1);
/// Interval at which data past its retention is removed.
const TIDY: Duration = Duration::from_secs(60);
/// Priority reduction of the thread of a long operation, in `nice` steps. Slow reads use the same reduction.
#[cfg(target_os = "linux")]
const LOWER: i32 = 5;

/// Handles of the workers and of the cleanup thread.
pub(crate) struct Workers {
    crew: Arc<WorkerCrew>,
    tidier: JoinHandle<()>,
}

impl Workers {
    /// Starts the workers, as many as the limits allow, and the cleanup thread. `node` distinguishes this server's leases from those of
    /// other servers and must stay the same across restarts.
    pub(crate) fn start(hub: &Hub, node: &str, observer: &Arc<dyn Observer>) -> std::io::Result<Self> {
        let crew = Arc::new(WorkerCrew {
            hub: hub.clone(),
            node: node.to_owned(),
            observer: Arc::clone(observer),
            stop: AtomicBool::new(false),
            threads: Mutex::default(),
        });
        for _ in 0..worker_count(hub) {
            crew.add()?;
        }
        let (hub, for_tidier) = (hub.clone(), Arc::clone(&crew));
        let tidier = thread::Builder::new().name("tidy".to_owned()).spawn(move || tidy(&hub, &for_tidier.stop))?;
        Ok(Self { crew, tidier })
    }

    /// Stops taking new operations and waits for running ones. Returns early once `hurried` returns `true`. Unfinished operations
    /// are then in the same state as after a crash, and the next start resumes them.
    pub(crate) fn stop(self, hurried: impl Fn() -> bool) {
        self.crew.stop.store(true, Ordering::Relaxed);
        self.crew.hub.operations().wake();
        self.tidier.thread().unpark();
        // Reads the list again each time, because a replacement may be added while this loop waits.
        let next = || self.crew.threads().handles.pop();
        for thread in std::iter::from_fn(next).chain([self.tidier]) {
            while !thread.is_finished() {
                if hurried() {
                    tracing::warn!("unfinished operations will run again after the next start");
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            }
            if thread.join().is_err() {
                tracing::error!("a background thread panicked");
            }
        }
    }
}

/// Returns the number of workers: the limit, or one per core if there is none.
fn worker_count(hub: &Hub) -> usize {
    match hub.limits().operation_workers {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        limit => limit,
    }
}

/// The threads that run operations: as many workers as configured, plus one thread for each long operation. When an operation
/// becomes long, a replacement worker is started. The operation's own thread ends with the operation, because an unprivileged
/// thread cannot raise its priority again.
struct WorkerCrew {
    hub: Hub,
    node: String,
    observer: Arc<dyn Observer>,
    stop: AtomicBool,
    threads: Mutex<WorkerThreads>,
}

#[derive(Default)]
struct WorkerThreads {
    handles: Vec<JoinHandle<()>>,
    /// Numbers of the running threads. The number is part of the lease holder's name.
    numbers: BTreeSet<usize>,
}

impl WorkerCrew {
    fn threads(&self) -> MutexGuard<'_, WorkerThreads> {
        self.threads.lock()
    }

    fn add(self: &Arc<Self>) -> std::io::Result<()> {
        let mut threads = self.threads();
        threads.handles.retain(|thread| !thread.is_finished());
        let number = (0..).find(|number| !threads.numbers.contains(number)).unwrap_or_default();
        let crew = Arc::clone(self);
        // The engine aborts the process on stacks below 512 KiB, and deeply nested statements need more than the default.
        let thread = thread::Builder::new().name(format!("operations-{number}")).stack_size(8 << 20);
        threads.handles.push(thread.spawn(move || crew.work(number))?);
        threads.numbers.insert(number);
        Ok(())
    }

    fn work(self: &Arc<Self>, number: usize) {
        let holder = format!("{}/{number}", self.node);
        while !self.stop.load(Ordering::Relaxed) {
            if self.run_next(&holder) == ThreadFate::IsReplaced {
                break;
            }
        }
        self.threads().numbers.remove(&number);
    }

    fn run_next(self: &Arc<Self>, holder: &str) -> ThreadFate {
        let operations = self.hub.operations();
        let (seen, began) = (operations.signals(), Instant::now());
        let (is_replaced, lower_priority) = (AtomicBool::new(false), lower_priority_of_this_thread());
        let on_long = || {
            match self.add() {
                Ok(()) => is_replaced.store(true, Ordering::Relaxed),
                // Without a replacement, the thread stays a worker and keeps its priority.
                Err(error) => return tracing::error!(%error, "cannot start a thread for another worker"),
            }
            lower_priority();
        };
        let span = self.observer.operation_span(Box::new(on_long));
        let ended = panic::catch_unwind(AssertUnwindSafe(|| operations.run_next_observed(holder, span.as_ref())));
        let mut is_idle = false;
        span.within(&mut || {
            is_idle = match &ended {
                Ok(Ok(Some((kind, ended)))) => {
                    self.observer.operation_ended(*kind, *ended, began.elapsed());
                    false
                }
                Ok(Ok(None)) => true,
                // The engine is overloaded, which is not an internal error.
                Ok(Err(PortError::Engine(EngineError::Busy))) => {
                    tracing::warn!("an operation ran out of memory; it will be retried");
                    true
                }
                Ok(Err(error)) => {
                    tracing::error!(error = error as &dyn std::error::Error, "a fault interrupted an operation");
                    true
                }
                // The lease expires and the operation is retried. After a few attempts, the operation fails.
                Err(_) => {
                    tracing::error!("an operation panicked");
                    false
                }
            }
        });
        span.ended(ended.ok().and_then(Result::ok).flatten().map(|(_, ended)| ended));
        if is_replaced.load(Ordering::Relaxed) {
            return ThreadFate::IsReplaced;
        }
        if is_idle {
            operations.wait(seen, IDLE);
        }
        ThreadFate::GoesOn
    }
}

/// What a thread does after an operation: continue, or end because a replacement was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThreadFate {
    GoesOn,
    IsReplaced,
}

/// Returns a function that lowers the priority of the thread that called this function, even if the result is called on another thread.
#[cfg(target_os = "linux")]
fn lower_priority_of_this_thread() -> impl Fn() + Sync {
    // Linux keeps a priority per thread, and `setpriority` accepts a thread id in place of a process id.
    let thread = Some(rustix::thread::gettid());
    move || {
        let lowered = rustix::process::getpriority_process(thread)
            .and_then(|now| rustix::process::setpriority_process(thread, now.saturating_add(LOWER).min(19)));
        if let Err(error) = lowered {
            tracing::debug!(%error, "cannot lower the priority of a thread with a long operation");
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn lower_priority_of_this_thread() -> impl Fn() + Sync {
    || {}
}

fn tidy(hub: &Hub, stop: &AtomicBool) {
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        thread::park_timeout(TIDY.saturating_sub(last.elapsed()));
        if last.elapsed() >= TIDY {
            last = Instant::now();
            if let Err(error) = hub.operations().tidy() {
                tracing::error!(error = &error as &dyn std::error::Error, "cleanup failed");
            }
            if let Err(error) = hub.dispatch().tidy() {
                tracing::error!(error = &error as &dyn std::error::Error, "cleanup of webhook deliveries failed");
            }
        }
    }
}
