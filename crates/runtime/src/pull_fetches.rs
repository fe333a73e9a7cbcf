//! Threads that fetch the commits of pull requests and previews into the base databases, and compute merge previews of large
//! databases.
//!
//! Due work is recorded in the metadata store. A fetch that a crash interrupted is due again at the next start.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use branchyard_domain::Hub;
use branchyard_domain::usecases::Refreshed;

use crate::observer::Observer;

/// Number of threads, which bounds concurrent fetches. Fetches mostly wait for the write queue of a database, so there may be
/// more threads than cores.
const PLACES: usize = 8;
/// Maximum sleep of an idle thread. Bounds how late the thread finds work that another process recorded, or that is due for a
/// retry.
const IDLE: Duration = Duration::from_secs(1);

/// Handles of the fetch threads.
pub(crate) struct PullFetches {
    hub: Hub,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl PullFetches {
    /// Starts the threads.
    pub(crate) fn start(hub: &Hub, observer: &Arc<dyn Observer>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for number in 0..PLACES {
            let (hub, stop, observer) = (hub.clone(), Arc::clone(&stop), Arc::clone(observer));
            // The engine aborts the process on stacks below 512 KiB.
            let thread = thread::Builder::new().name(format!("pulls-{number}")).stack_size(8 << 20);
            threads.push(thread.spawn(move || work(&hub, &stop, observer.as_ref()))?);
        }
        Ok(Self { hub: hub.clone(), stop, threads })
    }

    /// Stops taking new work and waits for running fetches. Returns early once `hurried` returns `true`; unfinished fetches are
    /// due again at the next start.
    pub(crate) fn stop(self, hurried: impl Fn() -> bool) {
        self.stop.store(true, Ordering::Relaxed);
        self.hub.pulls().wake();
        for thread in self.threads {
            while !thread.is_finished() {
                if hurried() {
                    tracing::warn!("unfinished fetches for pull requests will run again after the next start");
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            }
            if thread.join().is_err() {
                tracing::error!("a pull request thread panicked");
            }
        }
    }
}

fn work(hub: &Hub, stop: &AtomicBool, observer: &dyn Observer) {
    while !stop.load(Ordering::Relaxed) {
        let (seen, began) = (hub.pulls().signals(), Instant::now());
        let refreshed = panic::catch_unwind(AssertUnwindSafe(|| hub.pulls().refresh_next(PLACES)));
        if let Ok(Ok(Some(ended))) = &refreshed {
            observer.pull_refreshed(ended, began.elapsed());
        }
        match refreshed {
            Ok(Ok(Some(Refreshed::Fetched | Refreshed::Prepared | Refreshed::Dropped))) => {}
            Ok(Ok(Some(Refreshed::Failed(error)))) => {
                tracing::error!(error = &error as &dyn std::error::Error, "cannot fetch the commits of a pull request");
            }
            Ok(Ok(Some(Refreshed::PrepareFailed(error)))) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a trial merge failed");
            }
            Ok(Ok(None)) => hub.pulls().wait(seen, IDLE),
            Ok(Err(error)) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "fetches for pull requests are delayed: the metadata store failed"
                );
                hub.pulls().wait(seen, IDLE);
            }
            // The lease expires and the fetch is retried.
            Err(_) => {
                tracing::error!("a fetch for a pull request panicked");
                hub.pulls().wait(seen, IDLE);
            }
        }
    }
}
