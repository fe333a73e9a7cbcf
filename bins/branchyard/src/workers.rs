//! The threads that run operations, and the one that tidies up.

use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use branchyard_domain::Hub;
use branchyard_domain::errors::Fault;
use branchyard_domain::ports::EngineError;

use crate::metrics::Metrics;

/// How long an idle worker sleeps at most: work that another process queued is found this late.
const IDLE: Duration = Duration::from_secs(1);
/// How often things past their retention are removed.
const TIDY: Duration = Duration::from_secs(60);
/// What the thread of a long operation lowers its priority by, in steps of `nice`, as long reads do.
#[cfg(target_os = "linux")]
const LOWER: i32 = 5;

/// The background threads of a server.
pub(crate) struct Workers {
    crew: Arc<WorkerCrew>,
    tidier: JoinHandle<()>,
}

impl Workers {
    /// Starts as many workers as the hub's limits say, and the tidier. `node` tells their leases from those of other servers, and stays the same
    /// when this one is started again.
    pub(crate) fn start(hub: &Hub, node: &str, metrics: &Arc<Metrics>) -> std::io::Result<Self> {
        let crew = Arc::new(WorkerCrew {
            hub: hub.clone(),
            node: node.to_owned(),
            metrics: Arc::clone(metrics),
            stop: AtomicBool::new(false),
            threads: Mutex::default(),
        });
        for _ in 0..hub.limits().operation_workers {
            crew.add()?;
        }
        let (hub, for_tidier) = (hub.clone(), Arc::clone(&crew));
        let tidier = thread::Builder::new().name("tidy".to_owned()).spawn(move || tidy(&hub, &for_tidier.stop))?;
        Ok(Self { crew, tidier })
    }

    /// Lets running operations end, begins no more. Once `hurried` says so it waits no longer: what is left is as after a crash, and the next
    /// start goes on with it.
    pub(crate) fn stop(self, hurried: impl Fn() -> bool) {
        self.crew.stop.store(true, Ordering::Relaxed);
        // A thread may start another one before it ends.
        let next = || self.crew.threads().handles.pop();
        for thread in std::iter::from_fn(next).chain([self.tidier]) {
            while !thread.is_finished() {
                if hurried() {
                    tracing::warn!("operations under way are left to the next start");
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

/// The threads that run operations: as many workers as configured, and one for each long operation. A thread whose operation becomes a long one
/// starts a worker in its place and ends with its operation, since it cannot raise its priority again.
struct WorkerCrew {
    hub: Hub,
    node: String,
    metrics: Arc<Metrics>,
    stop: AtomicBool,
    threads: Mutex<WorkerThreads>,
}

#[derive(Default)]
struct WorkerThreads {
    handles: Vec<JoinHandle<()>>,
    /// Numbers of threads that live; leases are held by number.
    numbers: BTreeSet<usize>,
}

impl WorkerCrew {
    fn threads(&self) -> MutexGuard<'_, WorkerThreads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Self>) -> std::io::Result<()> {
        let mut threads = self.threads();
        threads.handles.retain(|thread| !thread.is_finished());
        let number = (0..).find(|number| !threads.numbers.contains(number)).unwrap_or_default();
        let crew = Arc::clone(self);
        // The engine aborts the process on stacks below 512 KiB; deep statements want more than the default.
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
                // It stays a worker, with the priority of one.
                Err(error) => return tracing::error!(%error, "no thread for another worker"),
            }
            lower_priority();
        };
        let ended = panic::catch_unwind(AssertUnwindSafe(|| operations.run_next_noting(holder, &on_long)));
        let is_idle = match &ended {
            Ok(Ok(Some((kind, ended)))) => {
                self.metrics.operations.ran(*kind, *ended, began.elapsed().as_secs_f64());
                false
            }
            Ok(Ok(None)) => true,
            // Overload is no fault of ours.
            Ok(Err(Fault::Engine(EngineError::Busy))) => {
                tracing::warn!("an operation found no memory and is tried again");
                true
            }
            Ok(Err(error)) => {
                tracing::error!(error = error as &dyn std::error::Error, "an operation met a fault");
                true
            }
            // Its lease ends, and it is tried again; after a few times it fails.
            Err(_) => {
                tracing::error!("an operation panicked");
                false
            }
        };
        if is_replaced.load(Ordering::Relaxed) {
            return ThreadFate::IsReplaced;
        }
        if is_idle {
            operations.wait(seen, IDLE);
        }
        ThreadFate::GoesOn
    }
}

/// What a thread does after an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThreadFate {
    GoesOn,
    IsReplaced,
}

/// Lets others compute before this thread, once the result is called, on whichever thread.
#[cfg(target_os = "linux")]
fn lower_priority_of_this_thread() -> impl Fn() + Sync {
    // Linux keeps a priority for each thread, and takes the id of a thread for that of a process.
    let thread = Some(rustix::thread::gettid());
    move || {
        let lowered = rustix::process::getpriority_process(thread)
            .and_then(|now| rustix::process::setpriority_process(thread, now.saturating_add(LOWER).min(19)));
        if let Err(error) = lowered {
            tracing::debug!(%error, "the thread of a long operation keeps its priority");
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn lower_priority_of_this_thread() -> impl Fn() + Sync {
    || {}
}

fn tidy(hub: &Hub, stop: &AtomicBool) {
    let mut since = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(200));
        since += Duration::from_millis(200);
        if since >= TIDY {
            since = Duration::ZERO;
            if let Err(error) = hub.operations().tidy() {
                tracing::error!(error = &error as &dyn std::error::Error, "tidying failed");
            }
            if let Err(error) = hub.dispatch().tidy() {
                tracing::error!(error = &error as &dyn std::error::Error, "tidying the deliveries failed");
            }
        }
    }
}
