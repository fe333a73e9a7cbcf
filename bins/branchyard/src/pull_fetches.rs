//! The threads that bring the commits of pulls and previews into their bases, and make trial merges of large databases.
//!
//! What is due is in the store; a fetch that a crash cut short is due again at the next start.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use branchyard_domain::Hub;
use branchyard_domain::usecases::Refreshed;

use crate::metrics::Metrics;

/// Fetches that run at once at most. They mostly wait for the turn of a database, so there are more than cores.
const PLACES: usize = 8;
/// How long an idle thread sleeps at most: what another process recorded, and what is due again, is found this late.
const IDLE: Duration = Duration::from_secs(1);

/// The threads of a server.
pub(crate) struct PullFetches {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl PullFetches {
    /// Starts the threads.
    pub(crate) fn start(hub: &Hub, metrics: &Arc<Metrics>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for number in 0..PLACES {
            let (hub, stop, metrics) = (hub.clone(), Arc::clone(&stop), Arc::clone(metrics));
            // The engine aborts the process on stacks below 512 KiB.
            let thread = thread::Builder::new().name(format!("pulls-{number}")).stack_size(8 << 20);
            threads.push(thread.spawn(move || work(&hub, &stop, &metrics))?);
        }
        Ok(Self { stop, threads })
    }

    /// Lets fetches under way end, begins no more. Once `hurried` returns true it waits no longer: what is left is due at the next start.
    pub(crate) fn stop(self, hurried: impl Fn() -> bool) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            while !thread.is_finished() {
                if hurried() {
                    tracing::warn!("fetches for pulls are left to the next start");
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            }
            if thread.join().is_err() {
                tracing::error!("a thread that fetches for pulls panicked");
            }
        }
    }
}

fn work(hub: &Hub, stop: &AtomicBool, metrics: &Metrics) {
    while !stop.load(Ordering::Relaxed) {
        let (seen, began) = (hub.pulls().signals(), Instant::now());
        let refreshed = panic::catch_unwind(AssertUnwindSafe(|| hub.pulls().refresh_next(PLACES)));
        if let Ok(Ok(Some(ended))) = &refreshed {
            metrics.pulls.refreshed(ended, began.elapsed());
        }
        match refreshed {
            Ok(Ok(Some(Refreshed::Fetched | Refreshed::Prepared | Refreshed::Dropped))) => {}
            Ok(Ok(Some(Refreshed::Failed(error)))) => {
                tracing::error!(error = &error as &dyn std::error::Error, "the commits of a pull could not be fetched");
            }
            Ok(Ok(Some(Refreshed::PrepareFailed(error)))) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a trial merge could not be made");
            }
            Ok(Ok(None)) => hub.pulls().wait(seen, IDLE),
            Ok(Err(error)) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "fetches for pulls wait for the metadata store"
                );
                hub.pulls().wait(seen, IDLE);
            }
            // Its lease ends, and it is tried again.
            Err(_) => {
                tracing::error!("a fetch for a pull panicked");
                hub.pulls().wait(seen, IDLE);
            }
        }
    }
}
