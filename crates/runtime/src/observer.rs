//! What a service measures of the work in the background.

use std::time::Duration;

use branchyard_domain::entities::{EventName, OperationKind};
use branchyard_domain::usecases::{Attempted, CollectionStep, Ended, Refreshed, Turn};

/// Receives what the background threads did, for metrics. Every method does nothing unless it is implemented. Methods are
/// called on the threads that work and should return quickly.
pub trait Observer: Send + Sync {
    /// An operation ran for this time and ended.
    fn operation_ended(&self, _kind: OperationKind, _ended: Ended, _took: Duration) {}

    /// A fetch or a trial merge for a pull request ended.
    fn pull_refreshed(&self, _refreshed: &Refreshed, _took: Duration) {}

    /// The thread that collects garbage made a step.
    fn collection_stepped(&self, _step: &CollectionStep, _took: Duration) {}

    /// An event was turned into deliveries.
    fn event_dispatched(&self, _event: EventName) {}

    /// The outcomes of attempts were recorded, and deliveries were leased.
    fn deliveries_turned(&self, _turn: &Turn) {}

    /// One attempt of a delivery was made.
    fn delivery_attempted(&self, _attempted: &Attempted) {}

    /// The number of attempts under way changed.
    fn attempts_in_flight(&self, _attempts: usize) {}
}

/// An observer that ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct IgnoreAll;

impl Observer for IgnoreAll {}
