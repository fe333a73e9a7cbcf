//! Observers of background work, for logs and traces.

use crate::entities::{DatabaseLocator, Delivery, OperationKind};
use crate::values::{OperationId, TraceContext};

/// Observes the runs of operations.
pub trait OperationObserver: Sync {
    /// Calls `run` once, which makes an attempt of an operation. The argument of `run` is the trace context of the attempt's
    /// events: that of the operation, or a child of it.
    fn attempt(&self, attempt: &OperationAttempt<'_>, run: &mut dyn FnMut(Option<TraceContext>));

    /// Called on another thread than the operation's, when the operation becomes long-running and its worker's share goes to
    /// another operation.
    fn became_long(&self) {}
}

/// Observes the attempts of deliveries.
pub trait DeliveryObserver {
    /// Calls `run` once, which makes an attempt of a delivery. The argument of `run` is the trace context to send to the
    /// receiver: that of the event, or a child of it. `run` returns `true` if the receiver accepted the delivery.
    fn attempt(&self, attempt: &DeliveryAttempt<'_>, run: &mut dyn FnMut(Option<TraceContext>) -> bool);
}

/// An attempt of an operation that is about to be made.
#[derive(Debug, Clone, Copy)]
pub struct OperationAttempt<'a> {
    /// The operation.
    pub id: OperationId,
    /// Its kind.
    pub kind: OperationKind,
    /// The database that the operation belongs to; of a fork, the source.
    pub database: &'a DatabaseLocator,
    /// Number of the attempt, starting at 1.
    pub number: u32,
    /// The trace context of the operation.
    pub trace: Option<TraceContext>,
}

/// An attempt of a delivery that is about to be made.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryAttempt<'a> {
    /// The delivery.
    pub delivery: &'a Delivery,
    /// The database of the event.
    pub database: &'a DatabaseLocator,
    /// Number of the attempt, starting at 1.
    pub number: u32,
    /// The trace context of the event.
    pub trace: Option<TraceContext>,
}

/// An observer that does nothing.
pub(crate) struct Unobserved;

impl OperationObserver for Unobserved {
    fn attempt(&self, attempt: &OperationAttempt<'_>, run: &mut dyn FnMut(Option<TraceContext>)) {
        run(attempt.trace);
    }
}

impl DeliveryObserver for Unobserved {
    fn attempt(&self, attempt: &DeliveryAttempt<'_>, run: &mut dyn FnMut(Option<TraceContext>) -> bool) {
        run(attempt.trace);
    }
}
