//! Metrics of the work in the background.

use std::time::Duration;

use branchyard_domain::entities::{EventName, OperationKind};
use branchyard_domain::usecases::{Attempted, CollectionStep, Ended, Refreshed, Turn};
use branchyard_runtime::Observer;

use super::Metrics;

impl Observer for Metrics {
    fn operation_ended(&self, kind: OperationKind, ended: Ended, took: Duration) {
        self.operations.ran(kind, ended, took.as_secs_f64());
    }

    fn pull_refreshed(&self, refreshed: &Refreshed, took: Duration) {
        self.pulls.refreshed(refreshed, took);
    }

    fn collection_stepped(&self, step: &CollectionStep, took: Duration) {
        self.collections.stepped(step, took);
    }

    fn event_dispatched(&self, event: EventName) {
        self.hooks.recorded(event);
    }

    fn deliveries_turned(&self, turn: &Turn) {
        self.hooks.turned(turn);
    }

    fn delivery_attempted(&self, attempted: &Attempted) {
        self.hooks.attempted(attempted);
    }

    fn attempts_in_flight(&self, attempts: usize) {
        self.hooks.in_flight(attempts);
    }
}
