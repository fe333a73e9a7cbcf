//! What a node measures regularly: its copies of databases, for the page of administrators, and what the nodes share, for metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_domain::entities::{Node, NodeCopies, NodeState, StoredObjects};
use branchyard_domain::ports::{Clock, Cluster};
use branchyard_domain::values::Timestamp;
use branchyard_engine_durable::Lag;
use branchyard_segments::Holder;
use branchyard_storage::SqlCluster;

use crate::config::Config;
use crate::durable_home::DurableHome;
use crate::repeating_thread::RepeatingThread;

/// Interval at which a node measures its copies. It saves the figures only if they changed.
const MEASURE_EVERY: Duration = Duration::from_secs(5);
/// Interval at which it reads the rows of all databases, nodes and objects.
const READ_ROWS_EVERY: Duration = Duration::from_secs(60);

/// What a node has read of the rows of its cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterFigures {
    /// Bytes that the copies of this node may have; 0 means no limit.
    pub(crate) limit_bytes: u64,
    /// How far the copies of this node are behind.
    pub(crate) lag: Lag,
    /// The objects of all databases.
    pub(crate) objects: StoredObjects,
    /// Nodes that are live and not drained.
    pub(crate) live: usize,
    /// Nodes that are live and drained.
    pub(crate) drained: usize,
    /// Nodes whose leases have ended.
    pub(crate) ended: usize,
    read_at: (Instant, Timestamp),
}

impl ClusterFigures {
    fn new(limit_bytes: u64, lag: Lag, objects: StoredObjects, nodes: &[Node], now: Timestamp) -> Self {
        let count = |wanted| nodes.iter().filter(|node| node.state().0 == wanted).count();
        Self {
            limit_bytes,
            lag,
            objects,
            live: count(NodeState::Live),
            drained: count(NodeState::Drained),
            ended: count(NodeState::Ended),
            read_at: (Instant::now(), now),
        }
    }

    /// Returns the time since the last collection of objects ended. `None` before the first one.
    pub(crate) fn since_collection(&self) -> Option<Duration> {
        let (read_at, now) = self.read_at;
        let micros = now.as_micros().saturating_sub(self.objects.collected_at?.as_micros());
        Some(Duration::from_micros(u64::try_from(micros).unwrap_or(0)) + read_at.elapsed())
    }
}

/// Measures what this node has.
struct Measurer {
    home: DurableHome,
    cluster: SqlCluster,
    clock: Arc<dyn Clock>,
    limit_bytes: u64,
    rows_read_at: Option<Instant>,
    saved: Option<(Holder, NodeCopies)>,
}

impl Measurer {
    fn measure(&mut self) -> anyhow::Result<()> {
        if self.rows_read_at.is_none_or(|at| at.elapsed() >= READ_ROWS_EVERY) {
            self.rows_read_at = Some(Instant::now());
            let read = self.read_rows();
            // Figures of long ago would hide that they cannot be read.
            self.home.set_cluster_figures(read.as_ref().ok().copied());
            read?;
        }
        let lag = self.home.cluster_figures().map(|figures| figures.lag).unwrap_or_default();
        let figures = self.home.figures();
        let copies = NodeCopies {
            count: u64::try_from(figures.copies)?,
            bytes: figures.copy_bytes,
            limit_bytes: self.limit_bytes,
            behind: u64::try_from(lag.copies)?,
            behind_bytes: lag.bytes,
        };
        let Some(holder) = self.home.holder() else { return Ok(()) };
        let measured = Some((holder, copies));
        if let Some((holder, copies)) = measured.as_ref().filter(|_| self.saved != measured) {
            self.home.save_copies(holder, copies)?;
            self.saved = measured;
        }
        Ok(())
    }

    fn read_rows(&self) -> anyhow::Result<ClusterFigures> {
        let (lag, objects) = (self.home.lag()?, self.cluster.stored_objects()?);
        Ok(ClusterFigures::new(self.limit_bytes, lag, objects, &self.cluster.nodes()?, self.clock.now()))
    }
}

/// Starts the thread that measures, until it is stopped.
///
/// # Errors
/// Fails if no thread can be started.
pub(crate) fn follow(home: &DurableHome, config: &Config, clock: &Arc<dyn Clock>) -> std::io::Result<RepeatingThread> {
    let mut measurer = Measurer {
        home: home.clone(),
        cluster: home.cluster(config.store.grace.duration()),
        clock: Arc::clone(clock),
        limit_bytes: config.cluster.cache_bytes,
        rows_read_at: None,
        saved: None,
    };
    let mut is_failing = false;
    RepeatingThread::start("node-figures", MEASURE_EVERY, move |_| match measurer.measure() {
        Ok(()) => is_failing = false,
        Err(error) => {
            if !std::mem::replace(&mut is_failing, true) {
                let error: &(dyn std::error::Error + 'static) = error.as_ref();
                tracing::warn!(error, "cannot measure the copies of this node and the store of databases");
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_since_a_collection_goes_on() {
        let (now, lag) = (Timestamp::from_seconds(1_000), Lag::default());
        let none = ClusterFigures::new(0, lag, StoredObjects::default(), &[], now);
        assert_eq!(none.since_collection(), None);
        let objects = StoredObjects { collected_at: Some(Timestamp::from_seconds(940)), ..StoredObjects::default() };
        let figures = ClusterFigures::new(0, lag, objects, &[], now);
        let since = figures.since_collection().unwrap();
        assert!(since >= Duration::from_secs(60) && since < Duration::from_secs(70), "{since:?}");
    }
}
