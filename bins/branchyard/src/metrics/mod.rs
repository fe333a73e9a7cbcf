//! What the server measures of itself, for Prometheus. `docs/metrics.md` describes each metric; a test keeps the two together.
//!
//! Labels hold words from lists in the code and nothing of users: no owner, database, hook or address.

mod hooks;
mod listen;
mod operations;
mod pulls;
mod requests;
mod sampled;

use std::fmt;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub(crate) use hooks::HookMetrics;
pub(crate) use listen::{MetricsServer, start};
pub(crate) use operations::OperationMetrics;
pub(crate) use pulls::PullMetrics;
pub(crate) use requests::{RequestMetrics, count};
pub(crate) use sampled::Sources;

use sampled::Sampled;

/// Names and values of labels.
type Labels<const N: usize> = [(&'static str, String); N];
/// Histograms by labels.
type Histograms<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

/// All metrics of a server.
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) requests: RequestMetrics,
    pub(crate) operations: OperationMetrics,
    pub(crate) hooks: HookMetrics,
    pub(crate) pulls: PullMetrics,
    sampled: Sampled,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let ours = registry.sub_registry_with_prefix("branchyard");
        let (requests, operations) = (RequestMetrics::register(ours), OperationMetrics::register(ours));
        let (hooks, pulls) = (HookMetrics::register(ours), PullMetrics::register(ours));
        let sampled = Sampled::register(&mut registry);
        Self { registry, requests, operations, hooks, pulls, sampled }
    }

    /// Looks at what is not counted as it happens, and gives everything as OpenMetrics text.
    fn render(&self, sources: &Sources) -> Result<String, fmt::Error> {
        self.sampled.take(sources);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// From a millisecond to a minute.
fn seconds() -> Histogram {
    Histogram::new([0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0])
}
