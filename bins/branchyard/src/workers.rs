//! The threads that run operations, and the one that tidies up.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use branchyard_domain::Hub;

use crate::metrics::Metrics;

/// How long an idle worker sleeps at most: work that another process queued is found this late.
const IDLE: Duration = Duration::from_secs(1);
/// How often things past their retention are removed.
const TIDY: Duration = Duration::from_secs(60);

/// The background threads of a server.
pub(crate) struct Workers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `count` workers and the tidier. `node` tells their leases from those of other servers, and stays the same when this one is
    /// started again.
    pub(crate) fn start(hub: &Hub, count: usize, node: &str, metrics: &Arc<Metrics>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for number in 0..count {
            let (hub, stop, holder) = (hub.clone(), Arc::clone(&stop), format!("{node}/{number}"));
            // The engine aborts the process on stacks below 512 KiB; deep statements want more than the default.
            let thread = thread::Builder::new().name(format!("operations-{number}")).stack_size(8 << 20);
            let metrics = Arc::clone(metrics);
            threads.push(thread.spawn(move || work(&hub, &stop, &holder, &metrics))?);
        }
        let (hub, flag) = (hub.clone(), Arc::clone(&stop));
        threads.push(thread::Builder::new().name("tidy".to_owned()).spawn(move || tidy(&hub, &flag))?);
        Ok(Self { stop, threads })
    }

    /// Lets running operations end, begins no more. Once `hurried` says so it waits no longer: what is left is as after a crash, and the next
    /// start goes on with it.
    pub(crate) fn stop(self, hurried: impl Fn() -> bool) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
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

fn work(hub: &Hub, stop: &AtomicBool, holder: &str, metrics: &Metrics) {
    while !stop.load(Ordering::Relaxed) {
        let seen = hub.operations().signals();
        let began = Instant::now();
        match panic::catch_unwind(AssertUnwindSafe(|| hub.operations().run_next(holder))) {
            Ok(Ok(Some((kind, ended)))) => metrics.operations.ran(kind, ended, began.elapsed().as_secs_f64()),
            Ok(Ok(None)) => hub.operations().wait(seen, IDLE),
            Ok(Err(error)) => {
                tracing::error!(error = &error as &dyn std::error::Error, "an operation met a fault");
                hub.operations().wait(seen, IDLE);
            }
            // Its lease ends, and it is tried again; after a few times it fails.
            Err(_) => tracing::error!("an operation panicked"),
        }
    }
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
