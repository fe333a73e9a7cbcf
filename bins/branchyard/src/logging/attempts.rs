//! Spans of background work: attempts of operations and deliveries, deployments, recovery. The lines within a span have its
//! fields.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use branchyard_deployments::entities::{DeploymentOperation, DeploymentWork};
use branchyard_deployments::values::DeploymentId;
use branchyard_domain::ports::Lease;
use branchyard_domain::usecases::{DeliveryAttempt, DeliveryObserver, Ended, OperationAttempt, OperationObserver};
use branchyard_domain::values::TraceContext;
use branchyard_runtime::{DeliverySpan, OperationSpan};
use parking_lot::Mutex;
use tracing::Span;
use tracing::field::Empty;

use super::otlp::{FinishedSpan, SpanRole, Traces};
use crate::metrics::{kind_word, outcome_word};

/// A span under way.
struct OpenSpan {
    span: Span,
    name: &'static str,
    role: SpanRole,
    parent: Option<TraceContext>,
    own: Option<TraceContext>,
    began: Instant,
    attributes: Vec<(&'static str, String)>,
}

impl OpenSpan {
    fn begin(
        traces: &Traces,
        (name, role): (&'static str, SpanRole),
        span: Span,
        parent: Option<TraceContext>,
        attributes: Vec<(&'static str, String)>,
    ) -> Self {
        let own = traces.child(parent);
        if let (Some(own), false) = (own, span.is_disabled()) {
            span.record("trace_id", own.trace_id_text());
        }
        Self { span, name, role, parent, own, began: Instant::now(), attributes }
    }

    fn finish(self, traces: &Traces, has_failed: bool) {
        let took = self.began.elapsed();
        let Self { name, role, parent, own, attributes, .. } = self;
        traces.export(|| FinishedSpan { name: name.to_owned(), role, parent, own, took, attributes, has_failed });
    }
}

/// The span of an attempt of an operation. The level of spans is that of errors, so that no filter of the log takes the ids from a
/// line.
pub(crate) struct RunSpan<'a> {
    traces: &'a Traces,
    open: Mutex<Option<OpenSpan>>,
    on_long: Box<dyn Fn() + Sync + 'a>,
}

impl<'a> RunSpan<'a> {
    /// Creates the observer of one attempt. `on_long` is called when the operation becomes long-running.
    pub(crate) fn new(traces: &'a Traces, on_long: Box<dyn Fn() + Sync + 'a>) -> Self {
        Self { traces, open: Mutex::new(None), on_long }
    }
}

impl OperationSpan for RunSpan<'_> {
    fn within(&self, work: &mut dyn FnMut()) {
        let span = self.open.lock().as_ref().map(|open| open.span.clone());
        span.unwrap_or_else(Span::none).in_scope(work);
    }

    /// Logs the end of the attempt.
    fn ended(&self, ended: Option<Ended>) {
        let Some(mut open) = self.open.lock().take() else { return };
        let outcome = outcome_word(ended.unwrap_or(Ended::Unsettled));
        let duration_ms = millis(open.began.elapsed());
        open.span.in_scope(|| tracing::info!(outcome, duration_ms, "an attempt of an operation ended"));
        open.attributes.push(("outcome", outcome.to_owned()));
        open.finish(self.traces, ended.is_none());
    }
}

impl OperationObserver for RunSpan<'_> {
    fn attempt(&self, attempt: &OperationAttempt<'_>, run: &mut dyn FnMut(Option<TraceContext>)) {
        let OperationAttempt { id, database, number, .. } = attempt;
        let kind = kind_word(attempt.kind);
        let span = tracing::error_span!(
            "operation",
            operation_id = %id, kind, %database, attempt = number, trace_id = Empty
        );
        let attributes = vec![
            ("operation_id", id.to_string()),
            ("kind", kind.to_owned()),
            ("database", database.to_string()),
            ("attempt", number.to_string()),
        ];
        let name = ("operation", SpanRole::Internal);
        let open = OpenSpan::begin(self.traces, name, span.clone(), attempt.trace, attributes);
        let own = open.own;
        *self.open.lock() = Some(open);
        span.in_scope(|| {
            if *number > 1 {
                tracing::warn!("an earlier attempt of an operation did not settle it; trying again");
            }
            run(own);
        });
    }

    fn became_long(&self) {
        self.within(&mut || (self.on_long)());
    }
}

/// The spans of the attempts under one lease.
pub(crate) struct AttemptSpan<'a> {
    traces: &'a Traces,
    /// The span of the attempt that began last.
    last: RefCell<Span>,
}

impl<'a> AttemptSpan<'a> {
    /// Creates the observer of the attempts under a lease.
    pub(crate) fn new(traces: &'a Traces, lease: &Lease) -> Self {
        let first = lease.deliveries.first().map(|due| DeliveryAttempt {
            delivery: &due.delivery,
            database: &lease.database,
            number: due.delivery.attempt_count.saturating_add(1),
            trace: due.trace,
        });
        Self { traces, last: RefCell::new(first.as_ref().map_or_else(Span::none, span_of)) }
    }
}

impl DeliverySpan for AttemptSpan<'_> {
    fn within(&self, work: &mut dyn FnMut()) {
        let span = self.last.borrow().clone();
        span.in_scope(work);
    }
}

fn span_of(attempt: &DeliveryAttempt<'_>) -> Span {
    let DeliveryAttempt { delivery, database, number, .. } = attempt;
    tracing::error_span!(
        "delivery",
        delivery_id = %delivery.id, hook_id = %delivery.hook_id, %database, attempt = number, trace_id = Empty
    )
}

impl DeliveryObserver for AttemptSpan<'_> {
    fn attempt(&self, attempt: &DeliveryAttempt<'_>, run: &mut dyn FnMut(Option<TraceContext>) -> bool) {
        let DeliveryAttempt { delivery, database, number, trace } = attempt;
        let span = span_of(attempt);
        self.last.replace(span.clone());
        let attributes = vec![
            ("delivery_id", delivery.id.to_string()),
            ("hook_id", delivery.hook_id.to_string()),
            ("database", database.to_string()),
            ("attempt", number.to_string()),
        ];
        let open = OpenSpan::begin(self.traces, ("delivery", SpanRole::Client), span.clone(), *trace, attributes);
        let is_delivered = span.in_scope(|| run(open.own));
        open.finish(self.traces, !is_delivered);
    }
}

/// The span of work on a deployment.
pub(crate) struct DeploymentSpan<'a> {
    traces: &'a Traces,
    open: RefCell<Option<OpenSpan>>,
}

impl<'a> DeploymentSpan<'a> {
    /// Begins work on a deployment.
    pub(crate) fn begin(traces: &'a Traces, deployment: DeploymentId) -> Self {
        let span = tracing::error_span!(
            "deployment",
            %deployment, operation_id = Empty, kind = Empty, trace_id = Empty
        );
        let attributes = vec![("deployment", deployment.to_string())];
        let open = OpenSpan::begin(traces, ("deployment", SpanRole::Internal), span, None, attributes);
        Self { traces, open: RefCell::new(Some(open)) }
    }

    /// Runs `work` in the span.
    pub(crate) fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        let span = self.open.borrow().as_ref().map(|open| open.span.clone());
        span.unwrap_or_else(Span::none).in_scope(work)
    }

    /// Records the operation that the work is about.
    pub(crate) fn note(&self, operation: &DeploymentOperation) {
        let kind = match operation.work {
            DeploymentWork::RebootInstance(_) => "reboot_instance",
            DeploymentWork::CreateBackup => "create_backup",
            DeploymentWork::Delete => "delete",
        };
        if let Some(open) = self.open.borrow_mut().as_mut() {
            open.span.record("operation_id", tracing::field::display(operation.id)).record("kind", kind);
            open.attributes.push(("operation_id", operation.id.to_string()));
            open.attributes.push(("kind", kind.to_owned()));
        }
    }

    /// Ends the span. Only work that changed something, or failed, is exported: a look that finds nothing to do is no news.
    pub(crate) fn ended(self, is_news: bool, has_failed: bool) {
        if let Some(open) = self.open.take().filter(|_| is_news || has_failed) {
            open.finish(self.traces, has_failed);
        }
    }
}

/// Runs the recovery from an earlier process in a span of its own.
///
/// # Errors
/// The errors of `work`.
pub(crate) fn recovery<T>(traces: &Traces, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let span = tracing::error_span!("recovery", phase = "recovery", trace_id = Empty);
    let open = OpenSpan::begin(traces, ("recovery", SpanRole::Internal), span.clone(), None, Vec::new());
    let ended = span.in_scope(work);
    open.finish(traces, ended.is_err());
    ended
}

/// Returns a duration in milliseconds, rounded to microseconds.
fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
