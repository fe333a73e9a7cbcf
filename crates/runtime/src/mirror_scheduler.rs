//! The thread that queues the syncs of mirrors that are due.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use branchyard_domain::Hub;

/// Time between two looks. Bounds how late a sync begins.
const INTERVAL: Duration = Duration::from_secs(5);

/// Handle of the thread.
pub(crate) struct MirrorScheduler {
    hub: Hub,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl MirrorScheduler {
    /// Starts the thread.
    pub(crate) fn start(hub: &Hub) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (for_thread, stopped) = (hub.clone(), Arc::clone(&stop));
        let thread = thread::Builder::new().name("mirrors".to_owned());
        let thread = thread.spawn(move || work(&for_thread, &stopped))?;
        Ok(Self { hub: hub.clone(), stop, thread })
    }

    /// Ends the thread, and the requests of syncs that run: those syncs run again after the next start.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.hub.mirrors().abort();
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the thread that queues the syncs of mirrors panicked");
        }
    }
}

fn work(hub: &Hub, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match panic::catch_unwind(AssertUnwindSafe(|| hub.mirrors().queue_due())) {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "syncs of mirrors are delayed: the metadata store failed");
            }
            Err(_) => tracing::error!("queueing the syncs of mirrors panicked"),
        }
        thread::park_timeout(INTERVAL);
    }
}
