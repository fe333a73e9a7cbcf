//! The lease of the node, kept by a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use branchyard_domain::ports::Ids;
use branchyard_segments::{Holder, NodeLease, Nodes, RecordsError, Renewal, run};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

/// The pause before a lost lease is tried anew.
const AGAIN: Duration = Duration::from_secs(1);

/// Number of refused starts that prove another process. The first one may come from a start of this one whose answer was lost.
const REFUSALS: u32 = 2;

/// Why a node has no lease.
#[derive(Debug, thiserror::Error)]
pub enum LeaseEnd {
    /// Another process runs as this node.
    #[error(
        "another server runs under the node id '{0}': give each server an id of its own (node_id), or wait until that one's lease has ended"
    )]
    Taken(String),
    /// The metadata store does not answer.
    #[error("the metadata store does not answer: {0}")]
    Records(#[from] RecordsError),
    /// No thread could be started.
    #[error("cannot start the thread that keeps the lease: {0}")]
    Thread(#[from] std::io::Error),
}

/// Keeps the lease of the node until it is dropped or stopped.
pub struct NodeKeeper {
    kept: Arc<Kept>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Kept {
    lease: Mutex<NodeLease>,
    stop: AtomicBool,
    is_taken: AtomicBool,
}

/// Returns the time of a clock that does not go back and counts the time in which the machine is suspended.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or_default(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

fn holder(node: &str, ids: &dyn Ids) -> Holder {
    let mut random = [0; 16];
    ids.fill(&mut random);
    Holder { node: node.to_owned(), incarnation: u128::from_le_bytes(random) }
}

impl NodeKeeper {
    /// Takes the lease of a node and keeps it. `length` is how long it holds without being renewed.
    ///
    /// # Errors
    /// [`LeaseEnd`].
    pub fn start(
        node: &str,
        length: Duration,
        nodes: impl Nodes + Send + 'static,
        ids: Arc<dyn Ids>,
    ) -> Result<Self, LeaseEnd> {
        let mut lease = NodeLease::new(holder(node, ids.as_ref()), length);
        if run(lease.start(&nodes, now()))? == Renewal::Ended {
            return Err(LeaseEnd::Taken(node.to_owned()));
        }
        let kept =
            Arc::new(Kept { lease: Mutex::new(lease), stop: AtomicBool::new(false), is_taken: AtomicBool::new(false) });
        let keeping = Arc::clone(&kept);
        let thread =
            thread::Builder::new().name("node-lease".to_owned()).spawn(move || keep(&keeping, &nodes, &*ids))?;
        Ok(Self { kept, thread: Mutex::new(Some(thread)) })
    }

    /// Returns the present run of the node.
    pub fn holder(&self) -> Holder {
        self.kept.lease.lock().holder().clone()
    }

    /// Returns `true` if the lease of the present run of the node holds.
    pub(crate) fn holds(&self) -> bool {
        self.kept.lease.lock().holds(now())
    }

    /// Returns `true` if this is the present run of the node, and its lease holds.
    pub(crate) fn is_present(&self, holder: &Holder) -> bool {
        let lease = self.kept.lease.lock();
        lease.holder() == holder && lease.holds(now())
    }

    /// Returns `true` if another process runs under this node's id. This one must not go on.
    pub fn is_taken(&self) -> bool {
        self.kept.is_taken.load(Ordering::Relaxed)
    }

    /// Ends the lease. All databases must have been released.
    pub fn stop(&self) {
        self.kept.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.lock().take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Drop for NodeKeeper {
    fn drop(&mut self) {
        self.stop();
    }
}

fn keep(kept: &Kept, nodes: &impl Nodes, ids: &dyn Ids) {
    let (mut is_started, mut refusals) = (true, 0);
    while !kept.stop.load(Ordering::Relaxed) {
        let mut lease = kept.lease.lock().clone();
        thread::park_timeout(if is_started { lease.interval() } else { AGAIN });
        if kept.stop.load(Ordering::Relaxed) {
            break;
        }
        let sent = now();
        let renewal = if is_started { run(lease.renew(nodes, sent)) } else { run(lease.start(nodes, sent)) };
        match renewal {
            Ok(Renewal::Held) => (is_started, refusals) = (true, 0),
            Ok(Renewal::Ended) => {
                if std::mem::take(&mut is_started) {
                    tracing::error!("the lease of this node has ended; databases are acquired anew");
                } else {
                    refusals += 1;
                    kept.is_taken.store(refusals >= REFUSALS, Ordering::Relaxed);
                }
                lease = lease.of_run(holder(&lease.holder().node, ids));
            }
            Err(error) => tracing::warn!(%error, "cannot renew the lease of this node"),
        }
        *kept.lease.lock() = lease;
    }
    // From here on no call relies on it.
    let mut lease = {
        let mut kept = kept.lease.lock();
        let ended = kept.of_run(kept.holder().clone());
        std::mem::replace(&mut *kept, ended)
    };
    if let Err(error) = run(lease.stop(nodes)) {
        tracing::warn!(%error, "the lease of this node ends by itself");
    }
}
