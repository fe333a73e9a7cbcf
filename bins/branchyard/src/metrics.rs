//! Prometheus metrics of the server. `docs/metrics.md` describes each metric; a test keeps that page complete.
//!
//! Label values come from fixed lists in the code. They never contain user data such as owners, databases, hooks, or addresses.

mod collections;
mod hooks;
mod listen;
mod nodes;
mod operations;
mod pulls;
mod remotes;
mod requests;
mod sampled;

use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

pub(crate) use collections::CollectionMetrics;
pub(crate) use hooks::HookMetrics;
pub(crate) use listen::{MetricsServer, start};
pub(crate) use operations::{OperationMetrics, kind_word, outcome_word};
pub(crate) use pulls::PullMetrics;
pub(crate) use remotes::RemoteMetrics;
pub(crate) use requests::{RequestMetrics, count, method_word};
pub(crate) use sampled::Sources;

use sampled::Sampled;

/// Label names with their values.
type Labels<const N: usize> = [(&'static str, String); N];
/// Histograms by label.
type Histograms<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

/// All metrics of a server.
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) requests: RequestMetrics,
    pub(crate) operations: OperationMetrics,
    pub(crate) hooks: HookMetrics,
    pub(crate) pulls: PullMetrics,
    pub(crate) collections: CollectionMetrics,
    pub(crate) remotes: RemoteMetrics,
    /// How many seconds this machine's clock is ahead of that of Postgres.
    pub(crate) clock_offset: Gauge<f64, AtomicU64>,
    sampled: Sampled,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let ours = registry.sub_registry_with_prefix("branchyard");
        let (requests, operations) = (RequestMetrics::register(ours), OperationMetrics::register(ours));
        let (hooks, pulls) = (HookMetrics::register(ours), PullMetrics::register(ours));
        let (collections, remotes) = (CollectionMetrics::register(ours), RemoteMetrics::register(ours));
        let clock_offset = Gauge::default();
        let what = "How far the clock of this machine is ahead of that of Postgres";
        ours.register_with_unit("metadata_clock_offset", what, Unit::Seconds, clock_offset.clone());
        let sampled = Sampled::register(&mut registry);
        Self { registry, requests, operations, hooks, pulls, collections, remotes, clock_offset, sampled }
    }

    /// Samples the gauges and returns all metrics in the OpenMetrics text format.
    fn render(&self, sources: &Sources) -> Result<String, fmt::Error> {
        self.sampled.take(sources);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// Creates a histogram of seconds with buckets from one millisecond to one minute.
fn seconds() -> Histogram {
    Histogram::new([0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0])
}
