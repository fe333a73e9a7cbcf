//! Traces of a program without the feature `otlp`: nothing is exported.

use std::time::Duration;

use branchyard_domain::values::TraceContext;

use crate::config::Config;

/// The part of a span in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanRole {
    Server,
    Client,
    Internal,
}

/// A span that has ended.
#[expect(dead_code, reason = "read by the export of traces, which this program does not have")]
pub(crate) struct FinishedSpan {
    pub(crate) name: String,
    pub(crate) role: SpanRole,
    pub(crate) parent: Option<TraceContext>,
    pub(crate) own: Option<TraceContext>,
    pub(crate) took: Duration,
    pub(crate) attributes: Vec<(&'static str, String)>,
    pub(crate) has_failed: bool,
}

/// The export of traces.
#[derive(Clone)]
pub(crate) struct Traces(());

impl Traces {
    #[expect(clippy::unnecessary_wraps, reason = "the export of traces can fail to start")]
    pub(crate) fn start(_: &Config) -> anyhow::Result<Self> {
        Ok(Self(()))
    }

    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self(())
    }

    #[expect(clippy::unused_self, reason = "as with the export of traces")]
    pub(crate) fn child(&self, received: Option<TraceContext>) -> Option<TraceContext> {
        received
    }

    #[expect(clippy::unused_self, reason = "as with the export of traces")]
    pub(crate) fn export(&self, _: impl FnOnce() -> FinishedSpan) {}

    #[expect(clippy::unused_self, reason = "as with the export of traces")]
    pub(crate) fn stop(&self) {}
}
