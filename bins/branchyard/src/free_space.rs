//! Measures the free storage of the data folder for the hub.

use std::path::{Path, PathBuf};
use std::time::Duration;

use branchyard_domain::Hub;

use crate::repeating_thread::RepeatingThread;

/// Interval of the measurements.
const INTERVAL: Duration = Duration::from_secs(1);

/// Measures once, and then regularly on a thread.
pub(crate) fn follow(hub: &Hub, dir: &Path) -> std::io::Result<RepeatingThread> {
    measure(hub, dir);
    let (hub, dir): (Hub, PathBuf) = (hub.clone(), dir.to_owned());
    RepeatingThread::start("free-space", INTERVAL, move |_| measure(&hub, &dir))
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
