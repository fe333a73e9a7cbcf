//! Databases whose bytes are durable in a store of objects, and whose files here are copies of them.

mod housekeeping;
mod lost_metadata;
mod metadata_age;
mod private_copies;

use std::collections::HashSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use branchyard_domain::entities::NodeCopies;
use branchyard_domain::ports::{DatabaseStore, Engine, EngineError, Ids};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_engine_durable::{
    DurableEngine, DurablePorts, Figures, HandedOver, Lag, Leaders, LeaseEnd, NodeKeeper, RecordSource,
};
use branchyard_sealed_store::DataKeyRing;
use branchyard_segments::{Epoch, Holder, RecordsError};
use branchyard_storage::{LiveNode, SqlCluster, SqlRecords, Store};
use parking_lot::Mutex;

use self::metadata_age::MetadataAge;
use crate::config::ClusterConfig;
use crate::node_figures::ClusterFigures;
use crate::sql_engine::SqlEngine;

pub(crate) use housekeeping::Housekeeping;
pub(crate) use private_copies::PrivateCopies;

/// Time beyond the length of a lease within which that of a former run of this node has ended.
const LEASE_LEEWAY: Duration = Duration::from_secs(1);

/// The rows of databases in the metadata store.
struct StoredRows(Arc<Store>);

impl RecordSource for StoredRows {
    type Records = SqlRecords;

    fn records(&self, database: DatabaseId) -> SqlRecords {
        self.0.records(database)
    }

    fn is_put_off(&self, database: DatabaseId) -> Result<bool, RecordsError> {
        self.0.records(database).is_put_off()
    }

    fn withdraw(&self, database: DatabaseId, epoch: Epoch) -> Result<(), RecordsError> {
        self.0.records(database).withdraw(epoch)
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
    /// The keys under which its objects are sealed.
    pub(crate) data_keys: Option<&'a Arc<DataKeyRing>>,
    /// Source of randomness.
    pub(crate) ids: &'a Arc<dyn Ids>,
}

/// The engine over the store of databases.
#[derive(Clone)]
pub struct DurableHome {
    engine: Arc<DurableEngine<StoredRows>>,
    node: Option<Arc<NodeKeeper>>,
    metadata: Arc<Store>,
    store: Arc<dyn DatabaseStore>,
    data_keys: Option<Arc<DataKeyRing>>,
    age: Arc<MetadataAge>,
    /// `None` while they are not read.
    cluster_figures: Arc<Mutex<Option<ClusterFigures>>>,
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
        let age = Arc::new(MetadataAge::new(ports));
        let engine = DurableEngine::new(DurablePorts {
            engine: ports.engine.port(),
            files: ports.engine.files(),
            records: StoredRows(Arc::clone(ports.metadata)),
            store: Arc::clone(ports.store),
            node: node.clone(),
            age: Arc::clone(&age) as _,
            ids: Arc::clone(ports.ids),
        });
        let (metadata, store) = (Arc::clone(ports.metadata), Arc::clone(ports.store));
        let data_keys = ports.data_keys.cloned();
        Self { engine: Arc::new(engine), node, metadata, store, data_keys, age, cluster_figures: Arc::default() }
    }

    /// Returns the engine as the domain uses it.
    pub(crate) fn port(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.engine) as _
    }

    /// Returns what the engine holds and has moved.
    pub(crate) fn figures(&self) -> Figures {
        self.engine.figures()
    }

    /// Returns what this node has read of the rows of its cluster last, unless that failed.
    pub(crate) fn cluster_figures(&self) -> Option<ClusterFigures> {
        *self.cluster_figures.lock()
    }

    /// Keeps what this node has read of the rows of its cluster.
    pub(crate) fn set_cluster_figures(&self, figures: Option<ClusterFigures>) {
        *self.cluster_figures.lock() = figures;
    }

    /// Returns how far the copies here are behind the databases.
    ///
    /// # Errors
    /// Fails if the metadata store does not answer.
    pub(crate) fn lag(&self) -> Result<Lag, RecordsError> {
        Ok(self.engine.lag(&self.metadata.durable_bytes()?))
    }

    /// Returns the run of the node that this process is, or `None` if it is none.
    pub(crate) fn holder(&self) -> Option<Holder> {
        Some(self.node.as_ref()?.holder())
    }

    /// Saves what this node has measured of its copies.
    ///
    /// # Errors
    /// Fails if the metadata store does not answer.
    pub(crate) fn save_copies(&self, holder: &Holder, copies: &NodeCopies) -> Result<(), RecordsError> {
        self.metadata.save_copies(holder, copies)
    }

    /// Returns the nodes of the cluster. `grace` is the time for which collections keep an object that nothing refers to.
    pub(crate) fn cluster(&self, grace: Duration) -> SqlCluster {
        SqlCluster::new(Arc::clone(&self.metadata), grace)
    }

    /// Returns `true` once the metadata were found to be older than the store.
    pub(crate) fn is_read_only(&self) -> bool {
        self.age.is_older()
    }

    /// Returns the id of this node, or `None` if this process is none.
    pub(crate) fn node_id(&self) -> Option<String> {
        Some(self.holder()?.node)
    }

    /// Saves the origin at which other nodes reach this one.
    ///
    /// # Errors
    /// Fails if the metadata store does not answer.
    pub(crate) fn set_address(&self, address: &str) -> Result<(), RecordsError> {
        match &self.node {
            Some(node) => self.metadata.set_node_address(&node.holder(), address),
            None => Ok(()),
        }
    }

    /// Has fetches into databases that other nodes lead done by these.
    pub(crate) fn ask_leaders(&self, leaders: Arc<dyn Leaders>) {
        self.engine.ask_leaders(leaders);
    }

    /// Returns `true` if this node leads the database.
    pub(crate) fn is_leading(&self, database: DatabaseId) -> bool {
        self.engine.is_leading(database)
    }

    /// Takes the lead of a database, unless another node has it.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] if another node leads it, or if the lead cannot be taken.
    pub(crate) fn take_lead(&self, database: DatabaseId) -> Result<(), EngineError> {
        self.engine.take_lead(database)
    }

    /// Returns `true` if other nodes are to lead databases.
    pub(crate) fn is_drained(&self) -> bool {
        self.engine.figures().is_drained
    }

    /// Returns the live node that leads a database, if one does.
    ///
    /// # Errors
    /// Fails if the metadata store does not answer.
    pub(crate) fn leader(&self, database: DatabaseId) -> Result<Option<LiveNode>, RecordsError> {
        self.metadata.leader(database)
    }

    /// Returns the other nodes that can lead databases.
    ///
    /// # Errors
    /// Fails if the metadata store does not answer.
    pub(crate) fn successors(&self) -> Result<Vec<LiveNode>, RecordsError> {
        self.metadata.successors()
    }

    /// Fetches a commit into a database that this node leads ([`Engine::fetch`]).
    ///
    /// # Errors
    /// Those of [`Engine::fetch`].
    pub(crate) fn fetch_here(
        &self,
        into: DatabaseId,
        from: DatabaseId,
        commit: &CommitHash,
    ) -> Result<(), EngineError> {
        self.engine.fetch_here(into, from, commit)
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

    /// Reads whether this node was drained, and follows it: a drained node leases nothing that is queued, and writes only what cannot be.
    /// A process that is no node is never drained.
    ///
    /// # Errors
    /// Fails if the metadata store does not answer.
    pub(crate) fn follow_drain(&self) -> Result<bool, RecordsError> {
        let is_drained = self.node.is_some() && self.metadata.follow_drain()?;
        self.engine.set_drained(is_drained);
        Ok(is_drained)
    }

    /// Returns the databases in which operations or collections of this node run.
    ///
    /// # Errors
    /// Fails if the metadata store does not answer.
    pub(crate) fn busy_databases(&self) -> Result<HashSet<DatabaseId>, RecordsError> {
        self.metadata.busy_databases()
    }

    /// Releases the leases of databases that are not in use; with a `grace`, also of those that have been in use for longer.
    pub(crate) fn hand_over(&self, busy: &HashSet<DatabaseId>, grace: Option<Duration>) -> HandedOver {
        self.engine.hand_over(busy, grace)
    }

    /// Ends the leases, so that other nodes need not wait for them. Nothing may be written afterwards.
    pub(crate) fn release(&self) {
        self.engine.release();
        if let Some(node) = &self.node {
            node.stop();
        }
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
