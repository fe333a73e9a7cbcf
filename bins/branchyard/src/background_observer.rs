//! Logs, traces and metrics of the work in the background.

use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::entities::{EventName, OperationKind};
use branchyard_domain::ports::Lease;
use branchyard_domain::usecases::{Attempted, CollectionStep, Ended, Refreshed, Turn};
use branchyard_runtime::{DeliverySpan, Observer, OperationSpan};

use crate::logging::{AttemptSpan, RunSpan, Traces};
use crate::metrics::Metrics;

/// Passes what the background threads report to the log, the traces and the metrics.
pub(crate) struct BackgroundObserver {
    metrics: Arc<Metrics>,
    traces: Traces,
}

impl BackgroundObserver {
    pub(crate) fn new(metrics: Arc<Metrics>, traces: Traces) -> Self {
        Self { metrics, traces }
    }
}

impl Observer for BackgroundObserver {
    fn operation_span<'a>(&'a self, on_long: Box<dyn Fn() + Sync + 'a>) -> Box<dyn OperationSpan + 'a> {
        Box::new(RunSpan::new(&self.traces, on_long))
    }

    fn delivery_span<'a>(&'a self, lease: &Lease) -> Box<dyn DeliverySpan + 'a> {
        Box::new(AttemptSpan::new(&self.traces, lease))
    }

    fn operation_ended(&self, kind: OperationKind, ended: Ended, took: Duration) {
        self.metrics.operations.ran(kind, ended, took.as_secs_f64());
    }

    fn pull_refreshed(&self, refreshed: &Refreshed, took: Duration) {
        self.metrics.pulls.refreshed(refreshed, took);
    }

    fn collection_stepped(&self, step: &CollectionStep, took: Duration) {
        self.metrics.collections.stepped(step, took);
    }

    fn event_dispatched(&self, event: EventName) {
        self.metrics.hooks.recorded(event);
    }

    fn deliveries_turned(&self, turn: &Turn) {
        self.metrics.hooks.turned(turn);
    }

    fn delivery_attempted(&self, attempted: &Attempted) {
        self.metrics.hooks.attempted(attempted);
    }

    fn attempts_in_flight(&self, attempts: usize) {
        self.metrics.hooks.in_flight(attempts);
    }
}
