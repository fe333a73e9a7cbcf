//! The thread that collects garbage: what no ref reaches any more, in the files of databases.
//!
//! What is due is recorded in the metadata store. A collection that a crash interrupted is due again at the next start.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use branchyard_domain::Hub;
use branchyard_domain::usecases::CollectionStep;

use crate::observer::Observer;

/// Maximum sleep of the idle thread. Bounds how late it finds what became due by time, or by another process.
const IDLE: Duration = Duration::from_secs(1);
/// Sleep between two looks at a database whose last operation has to end first.
const BUSY: Duration = Duration::from_millis(100);
/// Time between two looks for forks that alone keep a former file.
const FORMER_FILES_EVERY: Duration = Duration::from_secs(60);

/// Handle of the thread.
pub(crate) struct Collector {
    hub: Hub,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Collector {
    /// Starts the thread. `node` distinguishes this server's leases from those of other servers.
    pub(crate) fn start(hub: &Hub, node: &str, observer: &Arc<dyn Observer>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (for_thread, stopped, holder) = (hub.clone(), Arc::clone(&stop), collection_holder(node));
        let observer = Arc::clone(observer);
        // The engine aborts the process on stacks below 512 KiB.
        let thread = thread::Builder::new().name("collector".to_owned()).stack_size(8 << 20);
        let thread = thread.spawn(move || work(&for_thread, &stopped, &holder, observer.as_ref()))?;
        Ok(Self { hub: hub.clone(), stop, thread })
    }

    /// Stops taking new collections and waits for the running one. Returns early once `hurried` returns `true`; the
    /// collection is due again at the next start.
    pub(crate) fn stop(self, hurried: impl Fn() -> bool) {
        self.stop.store(true, Ordering::Relaxed);
        self.hub.collections().wake();
        while !self.thread.is_finished() {
            if hurried() {
                tracing::warn!("an unfinished collection of garbage will run again after the next start");
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        if self.thread.join().is_err() {
            tracing::error!("the thread that collects garbage panicked");
        }
    }
}

/// Returns the name under which a process of this node leases databases.
pub fn collection_holder(node: &str) -> String {
    format!("{node}/collector")
}

fn work(hub: &Hub, stop: &AtomicBool, holder: &str, observer: &dyn Observer) {
    let collections = hub.collections();
    let mut looked_at = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let seen = collections.signals();
        let mut made = collections.record_made_forks();
        if looked_at.elapsed() >= FORMER_FILES_EVERY {
            looked_at = Instant::now();
            made = made.and_then(|()| collections.make_forks_of_former_files()).map(drop);
        }
        if let Err(error) = made {
            tracing::debug!(error = &error as &dyn std::error::Error, "forks are made and recorded later");
        }
        let began = Instant::now();
        let ended = panic::catch_unwind(AssertUnwindSafe(|| collections.collect_next(holder)));
        if let Ok(Ok(Some(step))) = &ended {
            observer.collection_stepped(step, began.elapsed());
        }
        match ended {
            Ok(Ok(Some(CollectionStep::Collected(database, freed_bytes)))) => {
                tracing::info!(database_id = %database, freed_bytes, "collected garbage");
            }
            Ok(Ok(Some(CollectionStep::Dropped))) => {}
            Ok(Ok(Some(CollectionStep::Reserved))) => collections.wait(seen, BUSY),
            Ok(Ok(Some(CollectionStep::Failed { database, error, is_first }))) => {
                // The cause, such as a full disk, may last. Later failures are not news.
                if is_first {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(database_id = %database, error, "cannot collect garbage now; it will be tried again, at least every hour");
                }
            }
            Ok(Ok(None)) => collections.wait(seen, IDLE),
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "collections of garbage are delayed: the metadata store failed");
                collections.wait(seen, IDLE);
            }
            // The lease expires and the collection is repeated.
            Err(_) => {
                tracing::error!("a collection of garbage panicked");
                collections.wait(seen, IDLE);
            }
        }
    }
}
