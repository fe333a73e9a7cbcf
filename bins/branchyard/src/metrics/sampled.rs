//! Gauges sampled at each scrape: queues, pools, connections, and the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use branchyard_domain::errors::PortError;
use branchyard_domain::values::Timestamp;
use branchyard_http_common::AppState;
use branchyard_storage::Store;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::Labels;
use super::nodes::NodeMetrics;
use crate::durable_home::DurableHome;
use crate::logging;
use crate::sql_engine::SqlEngine;

/// A gauge that is NaN if the sampled source did not respond.
pub(super) type SampledGauge = Gauge<f64, AtomicU64>;
type Levels<const N: usize> = Family<Labels<N>, SampledGauge>;

/// The sources to sample.
pub(crate) struct Sources {
    pub(crate) state: AppState,
    pub(crate) engine: SqlEngine,
    /// The engine over the store of databases, if there is one.
    pub(crate) home: Option<DurableHome>,
    pub(crate) metadata: Arc<Store>,
    pub(crate) started: Instant,
}

/// The sampled gauges.
#[derive(Default)]
pub(super) struct Sampled {
    pool_places: Levels<2>,
    pool_queued: Levels<1>,
    pool_refused: Family<Labels<1>, Counter>,
    writes_saturation: SampledGauge,
    bodies: SampledGauge,
    quarantines: SampledGauge,
    quarantine_bytes: SampledGauge,
    answers: SampledGauge,
    live_streams: SampledGauge,
    live_streams_refused: Counter,
    operations: Levels<1>,
    pull_fetches_due: SampledGauge,
    oldest_fetch_due: SampledGauge,
    trial_merges: SampledGauge,
    outbox_rows: SampledGauge,
    deliveries_due: SampledGauge,
    oldest_due: SampledGauge,
    metadata_connections: Levels<2>,
    engine_connections: Levels<1>,
    workers: Levels<1>,
    workers_killed: Counter,
    log_dropped: Counter,
    uptime: SampledGauge,
    memory: SampledGauge,
    open_files: SampledGauge,
    node: NodeMetrics,
}

impl Sampled {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let ours = registry.sub_registry_with_prefix("branchyard");
        let made = Self { node: NodeMetrics::register(ours), ..Self::default() };
        ours.register("build", "What runs", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        ours.register_with_unit("uptime", "Time since the server started", Unit::Seconds, made.uptime.clone());
        ours.register(
            "remote_quarantines",
            "Users and databases with chunks that no push has taken over",
            made.quarantines.clone(),
        );
        ours.register_with_unit(
            "remote_quarantine",
            "Chunks that no push has taken over",
            Unit::Bytes,
            made.quarantine_bytes.clone(),
        );
        ours.register("pool_places", "Slots for calls, by state", made.pool_places.clone());
        ours.register("pool_queued", "Calls that wait for a slot", made.pool_queued.clone());
        ours.register("pool_refused", "Calls refused for lack of a slot", made.pool_refused.clone());
        let (name, help) = ("writes_saturation", "Changes that run or wait, as a part of those that can run at once");
        ours.register(name, help, made.writes_saturation.clone());
        let (name, help) = ("http_bodies_in_flight", "Request bodies in memory");
        ours.register_with_unit(name, help, Unit::Bytes, made.bodies.clone());
        let (name, help) = ("http_answers_in_flight", "Long answers in memory");
        ours.register_with_unit(name, help, Unit::Bytes, made.answers.clone());
        ours.register("live_streams", "Open pages that wait for changes on a stream", made.live_streams.clone());
        let (name, help) = ("live_streams_refused", "Streams refused because there were too many; their pages poll");
        ours.register(name, help, made.live_streams_refused.clone());
        ours.register("operations", "Operations that are not settled", made.operations.clone());
        ours.register(
            "pull_fetches_due",
            "Pull requests whose commits are due to be fetched",
            made.pull_fetches_due.clone(),
        );
        let (name, help) = ("pull_fetch_oldest_due", "How long the oldest of them has been due");
        ours.register_with_unit(name, help, Unit::Seconds, made.oldest_fetch_due.clone());
        ours.register("pull_trial_merges_waiting", "Trial merges that wait for a thread", made.trial_merges.clone());
        ours.register("hook_outbox_rows", "Events whose deliveries are not created yet", made.outbox_rows.clone());
        ours.register("hook_deliveries_due", "Deliveries due or being attempted", made.deliveries_due.clone());
        let (name, help) = ("hook_oldest_due", "How long the oldest of them has been due");
        ours.register_with_unit(name, help, Unit::Seconds, made.oldest_due.clone());
        let connections = made.metadata_connections.clone();
        ours.register("metadata_connections", "Connections to the metadata store", connections);
        let (name, help) = ("engine_idle_connections", "Connections to database files kept open");
        ours.register(name, help, made.engine_connections.clone());
        ours.register("sql_workers", "Worker processes for SQL, by state", made.workers.clone());
        let (name, help) = ("sql_workers_killed", "Worker processes killed: too slow, or broke the protocol");
        ours.register(name, help, made.workers_killed.clone());
        let (name, help) = ("log_lines_dropped", "Lines of the log that were not written");
        ours.register(name, help, made.log_dropped.clone());
        let (name, help) = ("process_resident_memory", "Memory of the process");
        registry.register_with_unit(name, help, Unit::Bytes, made.memory.clone());
        registry.register("process_open_fds", "Open files and sockets of the process", made.open_files.clone());
        made
    }

    pub(super) fn take(&self, sources: &Sources) {
        let Sources { state, engine, home, metadata, started } = sources;
        self.node.take(home.as_ref());
        self.uptime.set(started.elapsed().as_secs_f64());
        let pools = [
            ("reads", &state.reads),
            ("writes", &state.writes),
            ("uploads", &state.uploads),
            ("sql", &state.sql),
            ("remotes", &state.remotes),
        ];
        for (name, pool) in pools {
            let (load, pool) = (pool.load(), || ("pool", name.to_owned()));
            let of = |word: &str| [pool(), ("state", word.to_owned())];
            self.pool_places.get_or_create(&of("busy")).set(float(load.busy));
            self.pool_places.get_or_create(&of("free")).set(float(load.size - load.busy));
            self.pool_queued.get_or_create(&[pool()]).set(float(load.queued));
            self.pool_refused.get_or_create(&[pool()]).inner().store(load.refused, Ordering::Relaxed);
        }
        let writes = state.writes.load();
        self.writes_saturation.set((float(writes.busy + writes.queued) / float(writes.size)).min(1.0));
        self.bodies.set(float(state.bodies.used()));
        let uploaded = state.services.pushes().load();
        self.quarantines.set(whole(uploaded.pushers));
        self.quarantine_bytes.set(whole(uploaded.bytes));
        self.answers.set(float(state.answers.used()));
        let live = state.live.load();
        self.live_streams.set(float(live.open));
        self.live_streams_refused.inner().store(live.refused, Ordering::Relaxed);
        let connections = metadata.connections();
        for (purpose, load) in [("read", connections.readers), ("write", connections.writers)] {
            let of = |word: &str| [("purpose", purpose.to_owned()), ("state", word.to_owned())];
            self.metadata_connections.get_or_create(&of("busy")).set(f64::from(load.busy));
            self.metadata_connections.get_or_create(&of("idle")).set(f64::from(load.idle));
        }
        let load = engine.load();
        for (purpose, idle) in [("read", load.idle_readers), ("write", load.idle_writers)] {
            self.engine_connections.get_or_create(&[("purpose", purpose.to_owned())]).set(float(idle));
        }
        for (word, count) in [("blank", load.blank_workers), ("idle", load.idle_workers), ("busy", load.busy_workers)] {
            self.workers.get_or_create(&[("state", word.to_owned())]).set(float(count));
        }
        self.workers_killed.inner().store(load.killed_workers, Ordering::Relaxed);
        self.log_dropped.inner().store(logging::dropped_lines(), Ordering::Relaxed);
        if let Err(error) = self.take_backlogs(state) {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot measure the backlogs");
            let fetches = [&self.pull_fetches_due, &self.oldest_fetch_due, &self.trial_merges];
            for level in [&self.outbox_rows, &self.deliveries_due, &self.oldest_due].into_iter().chain(fetches) {
                level.set(f64::NAN);
            }
            for word in ["queued", "running"] {
                self.operations.get_or_create(&[("state", word.to_owned())]).set(f64::NAN);
            }
        }
        let (memory, files) = memory_and_files();
        self.memory.set(memory.map_or(f64::NAN, whole));
        self.open_files.set(files.map_or(f64::NAN, float));
    }

    fn take_backlogs(&self, state: &AppState) -> Result<(), PortError> {
        let operations = state.services.operations().backlog()?;
        self.operations.get_or_create(&[("state", "queued".to_owned())]).set(whole(operations.queued));
        self.operations.get_or_create(&[("state", "running".to_owned())]).set(whole(operations.running));
        let now = state.services.now();
        let since = |oldest: Option<Timestamp>| {
            let micros = oldest.map_or(0, |at| now.as_micros().saturating_sub(at.as_micros()));
            whole(u64::try_from(micros).unwrap_or(0)) / 1e6
        };
        let (fetches, trials) = state.services.pulls().backlog()?;
        self.pull_fetches_due.set(whole(fetches.due));
        self.oldest_fetch_due.set(since(fetches.oldest_due_at));
        self.trial_merges.set(float(trials));
        let hooks = state.services.dispatch().backlog()?;
        self.outbox_rows.set(whole(hooks.events));
        self.deliveries_due.set(whole(hooks.due));
        self.oldest_due.set(since(hooks.oldest_due_at));
        Ok(())
    }
}

/// Converts a count. Counts stay below 2^53, so the conversion is exact.
#[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
pub(super) fn whole(count: u64) -> f64 {
    count as f64
}

pub(super) fn float(count: usize) -> f64 {
    whole(u64::try_from(count).unwrap_or(u64::MAX))
}

/// Returns the resident memory of the process in bytes and the number of its open files.
#[cfg(target_os = "linux")]
fn memory_and_files() -> (Option<u64>, Option<usize>) {
    let Ok(process) = procfs::process::Process::myself() else { return (None, None) };
    let memory = process.statm().ok().map(|memory| memory.resident * procfs::page_size());
    (memory, process.fd_count().ok())
}

/// Returns no values, because they are unknown on this system.
#[cfg(not(target_os = "linux"))]
fn memory_and_files() -> (Option<u64>, Option<usize>) {
    (None, None)
}
