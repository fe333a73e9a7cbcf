//! Measures the free storage of the data folder for the hub.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use branchyard_domain::Hub;

/// Interval of the measurements.
const INTERVAL: Duration = Duration::from_secs(1);

/// The thread that measures.
pub(crate) struct FreeSpaceMonitor {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl FreeSpaceMonitor {
    /// Measures once, and then regularly on a thread.
    pub(crate) fn start(hub: &Hub, dir: &Path) -> std::io::Result<Self> {
        measure(hub, dir);
        let stop = Arc::new(AtomicBool::new(false));
        let (hub, dir, stopped): (Hub, PathBuf, _) = (hub.clone(), dir.to_owned(), Arc::clone(&stop));
        let thread = thread::Builder::new().name("free-space".to_owned()).spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                thread::park_timeout(INTERVAL);
                measure(&hub, &dir);
            }
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the thread that measures free storage panicked");
        }
    }
}

fn measure(hub: &Hub, dir: &Path) {
    let free = match rustix::fs::statvfs(dir) {
        // What an unprivileged process may use, as for `df`.
        Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
        Err(error) => {
            tracing::warn!(%error, "cannot measure the free storage of the data folder");
            return;
        }
    };
    match hub.record_free_bytes(free) {
        Some(true) => {
            tracing::warn!(free_bytes = free, "storage is almost full: only deletions and sign-in are served")
        }
        Some(false) => tracing::info!(free_bytes = free, "there is enough free storage again"),
        None => {}
    }
}
