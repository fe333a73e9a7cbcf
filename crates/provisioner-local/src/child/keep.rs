//! Housekeeping of a process: expiry of streams and transactions, measurement of volume and memory, garbage collection,
//! and the end of the process when its server stays away.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use actix_web::rt::task::spawn_blocking;
use branchyard_deployments::values::Setting;
use branchyard_domain::values::DatabaseId;

use super::resources;
use super::state::Child;

const TICK: Duration = Duration::from_millis(200);
const MEASURE: Duration = Duration::from_secs(5);
/// Size in bytes below which garbage is not collected.
const WORTH_COLLECTING: u64 = 8 << 20;
const COLLECT_AT_MOST: Duration = Duration::from_secs(3600);
/// Consecutive measurements above the memory of the instance after which the process restarts.
const TOO_OFTEN: u32 = 3;

struct LastCollection {
    /// Size in bytes after the last collection.
    size: u64,
    at: Option<Instant>,
}

/// Runs the housekeeping until the process has to end.
pub(super) async fn house(child: Arc<Child>) {
    let grace = Duration::from_secs(child.spec.orphan_grace);
    let mut server_seen = Instant::now();
    let mut measured: Option<Instant> = None;
    let mut collected: HashMap<DatabaseId, LastCollection> = HashMap::new();
    let mut above = 0;
    loop {
        tokio::time::sleep(TICK).await;
        let now = Instant::now();
        if child.callers.is_connected() {
            server_seen = now;
        } else if now.saturating_duration_since(server_seen) >= grace {
            tracing::warn!("the server did not come back; shutting down");
            child.drained.notify_one();
            return;
        }
        let idle = child.streams.expired(now, child.millis(Setting::StreamIdleTimeoutMillis));
        let on = Arc::clone(&child);
        // Both may roll back transactions.
        let swept = spawn_blocking(move || {
            drop(idle);
            on.streams.expire_transactions(now);
        });
        drop(swept.await);
        if measured.is_some_and(|at| now.saturating_duration_since(at) < MEASURE) {
            continue;
        }
        measured = Some(now);
        measure_volume(&child);
        above = if memory_is_above(&child) { above + 1 } else { 0 };
        if above >= TOO_OFTEN {
            tracing::warn!("the process uses more memory than the instance has; restarting");
            child.is_over_memory.store(true, Ordering::Release);
            child.drained.notify_one();
            return;
        }
        for database in child.databases.all() {
            collect(&child, database.id, &mut collected).await;
        }
    }
}

fn measure_volume(child: &Child) {
    let used = folder_bytes(&child.folder.db());
    let volume = resources::volume(child.spec.volume_gb);
    child.counters.disk_used.store(used, Ordering::Relaxed);
    child.tell_fill(child.fill.measured(used, volume));
}

fn folder_bytes(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => folder_bytes(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}

fn memory_is_above(child: &Child) -> bool {
    child.usage.read().resident_bytes.is_some_and(|bytes| bytes > resources::memory(child.spec.memory_gb))
}

/// Collects the garbage of a database if its file has doubled and no request runs, or if the volume is filling up.
async fn collect(child: &Arc<Child>, database: DatabaseId, collected: &mut HashMap<DatabaseId, LastCollection>) {
    let Ok(size) = child.engine.served_size_bytes(database) else { return };
    let last = collected.entry(database).or_insert(LastCollection { size, at: None });
    let used = child.counters.disk_used.load(Ordering::Relaxed);
    let fills = used >= resources::volume(child.spec.volume_gb) / 5 * 4;
    let rested = last.at.is_none_or(|at| at.elapsed() >= COLLECT_AT_MOST);
    let doubled = size >= WORTH_COLLECTING && size >= last.size.saturating_mul(2);
    let is_idle = child.requests.count() == 0;
    if !((doubled && is_idle) || (fills && rested)) {
        return;
    }
    let Ok(turn) = child.turn(database).try_lock_owned() else { return };
    let on = Arc::clone(child);
    let done = spawn_blocking(move || on.engine.collect_garbage(database)).await;
    drop(turn);
    match done {
        Ok(Ok(())) => {
            let after = child.engine.served_size_bytes(database).unwrap_or(size);
            tracing::info!(before = size, after, "collected garbage");
            *last = LastCollection { size: after, at: Some(Instant::now()) };
        }
        // The database is being read. A later tick tries again.
        Ok(Err(error)) => tracing::debug!(%error, "garbage collection failed"),
        Err(error) => tracing::error!(%error, "garbage collection panicked"),
    }
}
