//! Databases whose bytes are durable in a store of objects, and whose files here are copies of them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use branchyard_domain::Hub;
use branchyard_domain::ports::{DatabaseStore, Engine, EngineError, Ids};
use branchyard_domain::values::DatabaseId;
use branchyard_engine_durable::{DurableEngine, DurablePorts, Figures, LeaseEnd, NodeKeeper, RecordSource};
use branchyard_runtime::recover_leases;
use branchyard_segments::RecordsError;
use branchyard_storage::{NodeRun, SqlRecords, Store};
use tokio::sync::Notify;

use crate::config::ClusterConfig;
use crate::repeating_thread::RepeatingThread;
use crate::sql_engine::SqlEngine;

/// Interval at which copies that exceed `cluster.cache_bytes` and nodes that have ended are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval at which segments to compact are looked for.
const COMPACT_EVERY: Duration = Duration::from_secs(10);
/// Time beyond the length of a lease within which that of a former run of this node has ended.
const LEASE_LEEWAY: Duration = Duration::from_secs(1);

/// The rows of databases in the metadata store.
struct StoredRows(Arc<Store>);

impl RecordSource for StoredRows {
    type Records = SqlRecords;

    fn records(&self, database: DatabaseId) -> SqlRecords {
        self.0.records(database)
    }

    fn clear(&self, database: DatabaseId) -> Result<(), RecordsError> {
        self.0.records(database).clear()
    }
}

/// What opens a [`DurableHome`].
pub(crate) struct HomePorts<'a> {
    /// The engine whose files are copies.
    pub(crate) engine: &'a SqlEngine,
    /// The metadata store.
    pub(crate) metadata: &'a Arc<Store>,
    /// The store of databases.
    pub(crate) store: &'a Arc<dyn DatabaseStore>,
    /// Source of randomness.
    pub(crate) ids: &'a Arc<dyn Ids>,
}

/// The engine over the store of databases.
#[derive(Clone)]
pub struct DurableHome {
    engine: Arc<DurableEngine<StoredRows>>,
    node: Option<Arc<NodeKeeper>>,
    metadata: Arc<Store>,
}

impl DurableHome {
    /// Opens it as a node, which writes databases.
    ///
    /// # Errors
    /// Fails if another server runs under this id, or if the metadata store fails.
    pub(crate) fn of_node(id: &str, cluster: &ClusterConfig, ports: &HomePorts<'_>) -> anyhow::Result<Self> {
        let node = Arc::new(take_lease(id, cluster.lease.duration(), ports)?);
        Ok(Self::new(Some(node), ports))
    }

    /// Opens it for a process that only reads and removes databases.
    pub(crate) fn of_reader(ports: &HomePorts<'_>) -> Self {
        Self::new(None, ports)
    }

    fn new(node: Option<Arc<NodeKeeper>>, ports: &HomePorts<'_>) -> Self {
        let engine = DurableEngine::new(DurablePorts {
            engine: ports.engine.port(),
            files: ports.engine.files(),
            records: StoredRows(Arc::clone(ports.metadata)),
            store: Arc::clone(ports.store),
            node: node.clone(),
            ids: Arc::clone(ports.ids),
        });
        Self { engine: Arc::new(engine), node, metadata: Arc::clone(ports.metadata) }
    }

    /// Returns the engine as the domain uses it.
    pub(crate) fn port(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.engine) as _
    }

    /// Returns what the engine holds and has moved.
    pub(crate) fn figures(&self) -> Figures {
        self.engine.figures()
    }

    /// Brings the file of a database here.
    ///
    /// # Errors
    /// [`EngineError`]; [`EngineError::Damaged`] if the store has no such database.
    pub(crate) fn bring(&self, database: DatabaseId) -> Result<(), EngineError> {
        self.engine.bring_here(database)
    }

    /// Removes all files here that are not in use.
    ///
    /// # Errors
    /// [`EngineError`].
    pub(crate) fn drop_copies(&self) -> Result<(), EngineError> {
        self.engine.evict(0).map(drop)
    }

    /// Makes the file of a database that `restore` puts in place durable.
    ///
    /// # Errors
    /// Those of `restore`; [`EngineError`].
    pub(crate) fn restore(
        &self,
        database: DatabaseId,
        restore: impl FnOnce() -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        self.engine.replace(database, restore)
    }

    /// Starts what keeps the copies and the segments in order, and takes over from nodes that have ended.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub(crate) fn keep(&self, cluster: &ClusterConfig, hub: &Hub) -> std::io::Result<Housekeeping> {
        let (engine, most) = (Arc::clone(&self.engine), Some(cluster.cache_bytes).filter(|&bytes| bytes > 0));
        let mut ended =
            EndedNodes { metadata: Arc::clone(&self.metadata), hub: hub.clone(), recovered: HashSet::new() };
        let (node, superseded) = (self.node.clone(), Arc::new(Notify::new()));
        let (notify, mut compacted_at) = (Arc::clone(&superseded), Instant::now());
        let thread = RepeatingThread::start("durable-home", LOOK_EVERY, move |_| {
            if node.as_ref().is_some_and(|node| node.is_taken()) {
                notify.notify_one();
            }
            if let Err(error) = ended.recover() {
                tracing::warn!(%error, "cannot look for nodes that have ended");
            }
            if let Some(most) = most
                && let Err(error) = engine.evict(most)
            {
                tracing::warn!(%error, "cannot remove copies of databases to make room");
            }
            if compacted_at.elapsed() >= COMPACT_EVERY {
                engine.compact();
                compacted_at = Instant::now();
            }
        })?;
        Ok(Housekeeping { superseded, thread })
    }

    /// Ends the leases, so that other nodes need not wait for them. Nothing may be written afterwards.
    pub(crate) fn release(&self) {
        self.engine.release();
        if let Some(node) = &self.node {
            node.stop();
        }
    }
}

/// Nodes whose leases have ended: what they ran may run elsewhere.
struct EndedNodes {
    metadata: Arc<Store>,
    hub: Hub,
    recovered: HashSet<NodeRun>,
}

impl EndedNodes {
    fn recover(&mut self) -> anyhow::Result<()> {
        let ended = self.metadata.ended_nodes()?;
        self.recovered.retain(|run| ended.contains(run));
        for run in ended {
            if self.recovered.contains(&run) {
                continue;
            }
            let operations = recover_leases(&self.hub, &run.node)?;
            if operations > 0 {
                tracing::info!(node = run.node, operations, "operations of a node that has ended will run again");
                self.hub.operations().wake();
            }
            self.recovered.insert(run);
        }
        Ok(())
    }
}

/// Takes the lease of a node. If a former run of it was killed, waits until that one's lease has ended.
fn take_lease(id: &str, length: Duration, ports: &HomePorts<'_>) -> anyhow::Result<NodeKeeper> {
    let until = Instant::now() + length + LEASE_LEEWAY;
    let mut is_noted = false;
    loop {
        match NodeKeeper::start(id, length, ports.metadata.nodes(), Arc::clone(ports.ids)) {
            Err(LeaseEnd::Taken(_)) if Instant::now() < until => {
                if !std::mem::replace(&mut is_noted, true) {
                    tracing::info!("waiting for the lease of a former run of this node to end");
                }
                thread::sleep(Duration::from_millis(100));
            }
            taken => return taken.context("cannot become a node of the cluster"),
        }
    }
}

/// What keeps the copies and the segments in order.
pub(crate) struct Housekeeping {
    /// Notified when another server runs under the id of this node.
    pub(crate) superseded: Arc<Notify>,
    /// The thread.
    pub(crate) thread: RepeatingThread,
}

/// The folder of the copies of a process that is no node, removed when the process ends.
pub(crate) struct PrivateCopies(PathBuf);

impl PrivateCopies {
    /// Chooses a folder that no other process uses, in `parent`.
    pub(crate) fn below(parent: &Path) -> Self {
        Self(parent.join(std::process::id().to_string()))
    }

    /// Returns the path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateCopies {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::debug!(%error, "the folder of copies stays");
        }
    }
}
