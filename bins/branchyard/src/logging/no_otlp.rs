//! Traces of a program without the feature `otlp`: nothing is exported.

use branchyard_domain::values::TraceContext;

use super::finished_span::FinishedSpan;
use crate::config::Config;

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
