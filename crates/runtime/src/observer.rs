//! What a service logs and measures of the work in the background.

use std::time::Duration;

use branchyard_domain::entities::{EventName, OperationKind};
use branchyard_domain::ports::Lease;
use branchyard_domain::usecases::{
    Attempted, CollectionStep, DeliveryAttempt, DeliveryObserver, Ended, OperationAttempt, OperationObserver,
    Refreshed, Turn,
};
use branchyard_domain::values::TraceContext;

/// The attempt of an operation, for logs and traces.
pub trait OperationSpan: OperationObserver {
    /// Runs `work` in the span of the attempt, if there was one.
    fn within(&self, work: &mut dyn FnMut());

    /// Ends the span. `ended` is `None` after a fault or a panic, and if no operation was due.
    fn ended(&self, ended: Option<Ended>);
}

/// The attempts of deliveries under one lease, for logs and traces.
pub trait DeliverySpan: DeliveryObserver {
    /// Runs `work` in the span of the attempt that began last, or else of the one that is due first.
    fn within(&self, work: &mut dyn FnMut());
}

/// Receives what the background threads did, for logs, traces and metrics. Every method does nothing unless it is implemented. Methods are
/// called on the threads that work and should return quickly.
pub trait Observer: Send + Sync {
    /// Returns the span of the next attempt of an operation. The span calls `on_long` when the operation becomes
    /// long-running.
    fn operation_span<'a>(&'a self, on_long: Box<dyn Fn() + Sync + 'a>) -> Box<dyn OperationSpan + 'a> {
        Box::new(WithoutSpan { on_long })
    }

    /// Returns the span of the attempts under a lease.
    fn delivery_span<'a>(&'a self, _lease: &Lease) -> Box<dyn DeliverySpan + 'a> {
        Box::new(WithoutSpan { on_long: Box::new(|| {}) })
    }

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

/// Work without a span.
struct WithoutSpan<'a> {
    on_long: Box<dyn Fn() + Sync + 'a>,
}

impl OperationObserver for WithoutSpan<'_> {
    fn attempt(&self, attempt: &OperationAttempt<'_>, run: &mut dyn FnMut(Option<TraceContext>)) {
        run(attempt.trace);
    }

    fn became_long(&self) {
        (self.on_long)();
    }
}

impl OperationSpan for WithoutSpan<'_> {
    fn within(&self, work: &mut dyn FnMut()) {
        work();
    }

    fn ended(&self, _ended: Option<Ended>) {}
}

impl DeliveryObserver for WithoutSpan<'_> {
    fn attempt(&self, attempt: &DeliveryAttempt<'_>, run: &mut dyn FnMut(Option<TraceContext>) -> bool) {
        run(attempt.trace);
    }
}

impl DeliverySpan for WithoutSpan<'_> {
    fn within(&self, work: &mut dyn FnMut()) {
        work();
    }
}
