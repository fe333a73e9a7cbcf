//! The threads that keep the copies, the segments and the objects in order, and take over from nodes that have ended.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_domain::Hub;
use branchyard_domain::ports::{Clock, EngineError};
use branchyard_domain::values::Timestamp;
use branchyard_engine_durable::DurableEngine;
use branchyard_storage::{CollectError, Collection, Collector, NodeRun, Store, Task};
use tokio::sync::Notify;

use super::{DurableHome, StoredRows};
use crate::config::Config;
use crate::node_figures;
use crate::repeating_thread::RepeatingThread;

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

/// What keeps the copies and the segments in order.
pub(crate) struct Housekeeping {
    /// Notified when another server runs under the id of this node.
    pub(crate) superseded: Arc<Notify>,
    /// The threads.
    pub(crate) threads: Vec<RepeatingThread>,
}

impl DurableHome {
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
