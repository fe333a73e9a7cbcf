//! Metrics of garbage collections in the background.

use std::time::Duration;

use branchyard_domain::usecases::CollectionStep;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::{Labels, seconds};

const OUTCOMES: [&str; 2] = ["collected", "failed"];

/// Metrics of the thread that collects garbage.
pub(crate) struct CollectionMetrics {
    collections: Family<Labels<1>, Counter>,
    duration: Histogram,
    freed: Counter,
}

impl CollectionMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let made = Self { collections: Family::default(), duration: seconds(), freed: Counter::default() };
        for outcome in OUTCOMES {
            drop(made.collections.get_or_create(&[("outcome", outcome.to_owned())]));
        }
        registry.register("collections", "Garbage collections that ended", made.collections.clone());
        let (name, help) = ("collection_duration", "Duration of garbage collections");
        registry.register_with_unit(name, help, Unit::Seconds, made.duration.clone());
        let (name, help) = ("collection_freed", "Bytes by which collections made files smaller");
        registry.register_with_unit(name, help, Unit::Bytes, made.freed.clone());
        made
    }

    /// Counts a step of the thread. Steps that collected nothing do not count.
    pub(crate) fn stepped(&self, step: &CollectionStep, took: Duration) {
        let [collected, failed] = OUTCOMES;
        let outcome = match step {
            CollectionStep::Collected(_, freed) => {
                self.freed.inc_by(*freed);
                collected
            }
            CollectionStep::Failed { .. } => failed,
            CollectionStep::Reserved | CollectionStep::Dropped => return,
        };
        self.collections.get_or_create(&[("outcome", outcome.to_owned())]).inc();
        self.duration.observe(took.as_secs_f64());
    }
}
