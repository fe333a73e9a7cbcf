//! Databases whose bytes are durable in a store of objects, and whose files here are copies of them.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use branchyard_domain::Hub;
use branchyard_domain::entities::NodeCopies;
use branchyard_domain::ports::{Clock, DatabaseFiles, DatabaseStore, Engine, EngineError, Ids};
use branchyard_domain::values::{CommitHash, DatabaseId, Timestamp};
use branchyard_engine_durable::{
    DurableEngine, DurablePorts, Figures, HandedOver, Lag, Leaders, LeaseEnd, NodeKeeper, RecordAge, RecordSource,
};
use branchyard_sealed_store::DataKeyRing;
use branchyard_segments::{
    AcceptedLoss, Epoch, Evidence, Holder, Mark, ObjectKey, Record, Records as _, RecordsError, run,
};
use branchyard_storage::{
    CollectError, Collection, Collector, LiveNode, MarkError, NodeRun, SqlCluster, SqlRecords, Store, Task,
    for_each_object, older_records, remove_marks, store_loss, store_mark,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::config::{ClusterConfig, Config};
use crate::lost_changes::LostChanges;
use crate::node_figures::{self, ClusterFigures};
use crate::repeating_thread::RepeatingThread;
use crate::sql_engine::SqlEngine;

/// Interval at which copies that exceed `cluster.cache_bytes` and nodes that have ended are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval at which all copies are looked at.
const LIST_EVERY: Duration = Duration::from_secs(60);
/// Interval at which segments to compact are looked for.
const COMPACT_EVERY: Duration = Duration::from_secs(10);
/// Interval at which a node notes in the store what it has saved.
const MARK_EVERY: Duration = Duration::from_secs(5);
/// Interval at which a node looks whether objects are to be collected.
const LOOK_FOR_GARBAGE_EVERY: Duration = Duration::from_secs(60);
/// What nodes do about objects that nothing refers to any more.
const REGULAR_COLLECTION: Task =
    Task { every: Duration::from_secs(3_600), list_every: Duration::from_secs(86_400), dry_run: false, force: false };
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

/// Whether the metadata are as new as the store. Once they were found to be older, they stay so until the process ends.
struct MetadataAge {
    metadata: Arc<Store>,
    store: Arc<dyn DatabaseStore>,
    is_older: AtomicBool,
    /// The highest number of a write that the metadata had.
    highest: AtomicU64,
    /// What is to change nothing any more once they are older.
    hub: OnceLock<Hub>,
}

impl MetadataAge {
    fn new(ports: &HomePorts<'_>) -> Self {
        let (metadata, store) = (Arc::clone(ports.metadata), Arc::clone(ports.store));
        Self { metadata, store, is_older: AtomicBool::new(false), highest: AtomicU64::new(0), hub: OnceLock::new() }
    }

    fn is_older(&self) -> bool {
        self.is_older.load(Ordering::Relaxed)
    }

    fn found_older(&self, evidence: &dyn std::fmt::Display) {
        self.hub.get().into_iter().for_each(Hub::set_read_only);
        if !self.is_older.swap(true, Ordering::Relaxed) {
            tracing::error!(
                %evidence,
                "the metadata are older than the store of databases: only reads are served; bring back the newest metadata, or accept the loss \
                 with `branchyard cluster accept`"
            );
        }
    }

    /// Has a hub change nothing any more once the metadata are older.
    fn guard(&self, hub: &Hub) {
        if self.hub.set(hub.clone()).is_ok() && self.is_older() {
            hub.set_read_only();
        }
    }

    /// Looks at the marks of all nodes.
    fn compare_marks(&self) -> Result<(), MarkError> {
        if let Some(evidence) = older_records(self.store.as_ref(), &self.metadata.objects())? {
            self.found_older(&evidence);
        }
        Ok(())
    }

    /// Compares the metadata with what they were, and stores the mark of this node if it saved something since `marked`.
    fn mark(&self, node: &str, marked: &mut u64) -> Result<(), MarkError> {
        // Read first: what is saved in between would look like a loss.
        let own = self.metadata.own_write_counter();
        let counter = self.metadata.objects().write_counter()?;
        let highest = self.highest.fetch_max(counter, Ordering::Relaxed).max(own);
        if counter < highest {
            let mark = Mark { node: node.to_owned(), counter: highest };
            self.found_older(&Evidence::Mark { mark, counter });
        }
        if own > *marked && !self.is_older() {
            store_mark(self.store.as_ref(), node, own)?;
            *marked = own;
        }
        Ok(())
    }
}

impl RecordAge for MetadataAge {
    fn require_newest(&self) -> Result<(), EngineError> {
        self.compare_marks().map_err(|error| {
            EngineError::Unavailable(format!("cannot compare the age of the metadata with that of the store: {error}"))
        })?;
        match self.is_older() {
            true => Err(EngineError::Unavailable("the metadata are older than the store of databases".to_owned())),
            false => Ok(()),
        }
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

    /// Releases the leases of databases that are not in use; with `is_at_once`, of all.
    pub(crate) fn hand_over(&self, busy: &HashSet<DatabaseId>, is_at_once: bool) -> HandedOver {
        self.engine.hand_over(busy, is_at_once)
    }

    /// Deletes objects of the store that nothing refers to any more ([`Collector::run`]), and data keys that nothing is sealed under any
    /// more. `name` distinguishes this collector from others.
    ///
    /// # Errors
    /// [`CollectError`].
    pub(crate) fn collect(
        &self,
        name: &str,
        grace: Duration,
        task: Task,
        now: Timestamp,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Option<Collection>, CollectError> {
        let rows = self.metadata.objects();
        let collector = Collector { store: self.store.as_ref(), rows: &rows, grace, name, goes_on };
        let collected = collector.run(task, now);
        if let Err(CollectError::Older(evidence)) = &collected {
            self.age.found_older(evidence);
        }
        if let (Ok(Some(_)), Some(data_keys), false) = (&collected, &self.data_keys, task.dry_run) {
            let removed = data_keys.remove_unused()?;
            if removed > 0 {
                tracing::info!(
                    deleted = removed,
                    "deleted data keys under which nothing in the store is sealed any more"
                );
            }
        }
        collected
    }

    /// Accepts that the metadata are older than the store. The objects of what they lost are kept for `keep`, and can no longer come
    /// into use. No node may run. Returns the databases that lost something, with the number of those objects.
    ///
    /// # Errors
    /// Fails if one of the stores fails. Trying again is safe.
    pub(crate) fn accept_older_metadata(&self, keep: Duration) -> anyhow::Result<BTreeMap<DatabaseId, u64>> {
        let rows = self.metadata.objects();
        let (mut epochs, mut lost) = (BTreeMap::<DatabaseId, u64>::new(), BTreeMap::<DatabaseId, _>::new());
        for_each_object(self.store.as_ref(), |page| {
            let names: Vec<String> = page.iter().map(ToString::to_string).collect();
            let mut unnamed = Vec::new();
            for ((key, name), examined) in page.iter().zip(&names).zip(rows.examine(&names)?) {
                let Ok(database) = DatabaseId::parse(&key.database) else { continue };
                let epoch = epochs.entry(database).or_default();
                *epoch = (*epoch).max(key.epoch.0);
                if !examined.is_named {
                    unnamed.push(name.clone());
                }
                let Record { generation, durable_length, epoch, .. } = examined.record;
                let loss = AcceptedLoss { generation, durable_length, epoch };
                if !examined.is_named && loss.may_have_lost(epoch, key) {
                    lost.entry(database).or_insert((loss, 0)).1 += 1;
                }
            }
            Ok::<_, anyhow::Error>(rows.doom(&unnamed, keep)?)
        })?;
        for (database, (loss, _)) in &lost {
            let epoch = epochs.get(database).map_or(loss.epoch, |epoch| Epoch(*epoch));
            store_loss(self.store.as_ref(), *database, &AcceptedLoss { epoch, ..*loss })?;
        }
        rows.raise_epochs(&epochs)?;
        Ok(lost.into_iter().map(|(database, (_, objects))| (database, objects)).collect())
    }

    /// Brings what a database lost, when older metadata were accepted, into files of their own.
    ///
    /// # Errors
    /// Fails if one of the stores fails, or if a file cannot be written.
    pub(crate) fn find_lost_changes(
        &self,
        files: &dyn DatabaseFiles,
        database: DatabaseId,
        fresh: impl FnMut() -> DatabaseId,
    ) -> anyhow::Result<LostChanges> {
        let row = run(self.metadata.records(database).load(None))?;
        let named: Vec<ObjectKey> = row.segments.iter().filter_map(|segment| segment.object.parse().ok()).collect();
        LostChanges::find(self.store.as_ref(), files, database, &named, fresh)
    }

    /// Takes the lease of a database, also from another node.
    ///
    /// # Errors
    /// [`EngineError`].
    pub(crate) fn take_over(&self, database: DatabaseId) -> Result<(), EngineError> {
        self.engine.take_over(database)
    }

    /// Copies a commit to a database from a file that is in no store.
    ///
    /// # Errors
    /// [`EngineError`].
    pub(crate) fn bring_from_file(
        &self,
        into: DatabaseId,
        file: DatabaseId,
        commit: &CommitHash,
    ) -> Result<(), EngineError> {
        self.engine.bring_from_file(into, file, std::slice::from_ref(commit))
    }

    /// Removes the marks of all nodes.
    ///
    /// # Errors
    /// Fails if the store fails.
    pub(crate) fn remove_marks(&self) -> anyhow::Result<()> {
        Ok(remove_marks(self.store.as_ref())?)
    }

    /// Starts what keeps the copies, the segments and the objects in order, and takes over from nodes that have ended. If the metadata
    /// turn out to be older than the store, the hub changes nothing any more.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub(crate) fn keep(&self, config: &Config, hub: &Hub, clock: &Arc<dyn Clock>) -> std::io::Result<Housekeeping> {
        self.age.guard(hub);
        if let Err(error) = self.age.compare_marks() {
            tracing::warn!(%error, "cannot compare the age of the metadata with that of the store; each write waits for it");
        }
        let superseded = Arc::new(Notify::new());
        let mut threads = vec![self.keep_copies(config.cluster.cache_bytes, hub, &superseded)?];
        if let Some(node) = self.node_id() {
            threads.push(node_figures::follow(self, config, clock)?);
            threads.push(self.keep_mark(node.clone())?);
            threads.push(self.keep_objects(node, config.store.grace.duration(), Arc::clone(clock))?);
        }
        Ok(Housekeeping { superseded, threads })
    }

    fn keep_copies(&self, most: u64, hub: &Hub, superseded: &Arc<Notify>) -> std::io::Result<RepeatingThread> {
        let engine = Arc::clone(&self.engine);
        let mut room = Room {
            engine: Arc::clone(&engine),
            metadata: Arc::clone(&self.metadata),
            hub: hub.clone(),
            most: Some(most).filter(|&bytes| bytes > 0),
            listed_at: Instant::now(),
            outdated_at: Instant::now(),
        };
        let mut ended =
            EndedNodes { metadata: Arc::clone(&self.metadata), hub: hub.clone(), recovered: HashSet::new() };
        let node = self.node.clone();
        let (notify, mut compacted_at) = (Arc::clone(superseded), Instant::now());
        RepeatingThread::start("durable-home", LOOK_EVERY, move |_| {
            if node.as_ref().is_some_and(|node| node.is_taken()) {
                notify.notify_one();
            }
            if let Err(error) = ended.recover() {
                tracing::warn!(%error, "cannot look for nodes that have ended");
            }
            if let Err(error) = room.make() {
                tracing::warn!(%error, "cannot remove copies of databases to make room");
            }
            if let Err(error) = room.remove_outdated() {
                tracing::warn!(%error, "cannot remove outdated copies of databases");
            }
            if compacted_at.elapsed() >= COMPACT_EVERY {
                engine.compact();
                compacted_at = Instant::now();
            }
        })
    }

    fn keep_mark(&self, node: String) -> std::io::Result<RepeatingThread> {
        let (age, mut marked) = (Arc::clone(&self.age), 0);
        RepeatingThread::start("mark", MARK_EVERY, move |_| {
            if let Err(error) = age.mark(&node, &mut marked) {
                tracing::warn!(%error, "cannot note in the store what this node has saved");
            }
        })
    }

    fn keep_objects(&self, node: String, grace: Duration, clock: Arc<dyn Clock>) -> std::io::Result<RepeatingThread> {
        let home = self.clone();
        RepeatingThread::start("object-collection", LOOK_FOR_GARBAGE_EVERY, move |flag| {
            match home.collect(&node, grace, REGULAR_COLLECTION, clock.now(), &|| flag.goes_on()) {
                Ok(None) | Err(CollectError::Ended) => {}
                Ok(Some(Collection { doomed, deleted, left, cleared, .. })) => {
                    if doomed + deleted + cleared > 0 {
                        tracing::info!(doomed, deleted, cleared, "collected objects of the store");
                    }
                    if left > 0 {
                        tracing::warn!(
                            "more objects are to be deleted than one collection may; `branchyard store collect --force` deletes all"
                        );
                    }
                }
                Err(error) => tracing::warn!(%error, "cannot collect objects of the store"),
            }
        })
    }

    /// Ends the leases, so that other nodes need not wait for them. Nothing may be written afterwards.
    pub(crate) fn release(&self) {
        self.engine.release();
        if let Some(node) = &self.node {
            node.stop();
        }
    }
}

/// The room that copies of databases take.
struct Room {
    engine: Arc<DurableEngine<StoredRows>>,
    metadata: Arc<Store>,
    hub: Hub,
    /// `cluster.cache_bytes`, if there is a limit.
    most: Option<u64>,
    listed_at: Instant,
    outdated_at: Instant,
}

impl Room {
    /// Removes the copies that were not used for longest, where they exceed the limit, or where free storage is low.
    fn make(&mut self) -> Result<(), EngineError> {
        let used = self.engine.figures().copy_bytes;
        if self.hub.is_storage_low() {
            let removed = self.engine.evict(used / 2)?;
            if removed > 0 {
                tracing::warn!(files = removed, "removed copies of databases, because storage is almost full");
            }
        }
        let Some(most) = self.most else { return Ok(()) };
        // Copies that were not used since the start are known by their files only.
        if used > most || self.listed_at.elapsed() >= LIST_EVERY {
            self.engine.evict(most)?;
            self.listed_at = Instant::now();
        }
        Ok(())
    }

    /// Removes copies of databases that were deleted or collected on other nodes.
    fn remove_outdated(&mut self) -> anyhow::Result<()> {
        if self.outdated_at.elapsed() >= LIST_EVERY {
            self.outdated_at = Instant::now();
            self.engine.remove_outdated(&self.metadata.durable_bytes()?)?;
        }
        Ok(())
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
            let operations = self.hub.nodes().recover_leases(&run.node)?;
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
    /// The threads.
    pub(crate) threads: Vec<RepeatingThread>,
}

/// The folder of the copies of a process that is no node, removed when the process ends.
pub(crate) struct PrivateCopies {
    path: PathBuf,
    lock_path: PathBuf,
    #[expect(dead_code, reason = "held until the process ends")]
    lock: File,
}

/// What the names of the locks of such folders end with. A folder whose lock is free belongs to a process that was killed.
const LOCK: &str = ".lock";

impl PrivateCopies {
    /// Chooses a folder that no other process uses, in `parent`.
    ///
    /// # Errors
    /// Fails if the lock of the folder cannot be made.
    pub(crate) fn below(parent: &Path) -> std::io::Result<Self> {
        fs::create_dir_all(parent)?;
        let name = std::process::id().to_string();
        let (path, lock_path) = (parent.join(&name), parent.join(format!("{name}{LOCK}")));
        let lock = File::create(&lock_path)?;
        lock.lock()?;
        Ok(Self { path, lock_path, lock })
    }

    /// Returns the path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the folders of processes that were killed.
    ///
    /// # Errors
    /// Fails if a folder cannot be removed.
    pub(crate) fn remove_abandoned(parent: &Path) -> std::io::Result<()> {
        let entries = match fs::read_dir(parent) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let lock_path = entry?.path();
            let Some(name) = lock_path.file_name().and_then(|name| name.to_str()?.strip_suffix(LOCK)) else { continue };
            if File::open(&lock_path).is_ok_and(|lock| lock.try_lock().is_ok()) {
                remove_copies(&parent.join(name), &lock_path)?;
            }
        }
        Ok(())
    }
}

fn remove_copies(path: &Path, lock_path: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::remove_file(lock_path)
}

impl Drop for PrivateCopies {
    fn drop(&mut self) {
        if let Err(error) = remove_copies(&self.path, &self.lock_path) {
            tracing::debug!(%error, "the folder of copies stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_processes_that_were_killed_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().join("copies");
        PrivateCopies::remove_abandoned(&parent).unwrap();
        let own = PrivateCopies::below(&parent).unwrap();
        fs::create_dir(own.path()).unwrap();
        fs::create_dir(parent.join("1")).unwrap();
        fs::write(parent.join("1.lock"), "").unwrap();
        PrivateCopies::remove_abandoned(&parent).unwrap();
        assert!(own.path().exists() && !parent.join("1").exists() && !parent.join("1.lock").exists());
        drop(own);
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
    }
}
