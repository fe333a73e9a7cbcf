//! Spans that have ended, as the export of traces takes them.

use std::time::Duration;

use branchyard_domain::values::TraceContext;

/// The part of a span in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpanRole {
    Server,
    Client,
    Internal,
}

/// A span that has ended.
#[cfg_attr(
    not(feature = "otlp"),
    expect(dead_code, reason = "read by the export of traces, which this program does not have")
)]
pub(crate) struct FinishedSpan {
    pub(super) name: String,
    pub(super) role: SpanRole,
    pub(super) parent: Option<TraceContext>,
    pub(super) own: Option<TraceContext>,
    pub(super) took: Duration,
    pub(super) attributes: Vec<(&'static str, String)>,
    pub(super) has_failed: bool,
}
