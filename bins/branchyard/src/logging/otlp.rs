//! Export of traces: OTLP over HTTP with protobuf.
//!
//! Spans wait in a bounded queue for a thread that sends them in batches. Spans beyond the queue are dropped, and a receiver that
//! fails delays nothing else.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use branchyard_domain::values::TraceContext;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor as _,
};

use crate::config::Config;

/// Maximum number of spans that wait to be sent.
const QUEUE: usize = 4_096;
/// Maximum number of spans in one request.
const BATCH: usize = 512;
/// How long spans wait for others.
const DELAY: Duration = Duration::from_secs(1);
/// Deadline of one request to the receiver, and for the last spans at the end of the process.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Path of traces below the base URL of a receiver.
const PATH: &str = "/v1/traces";

/// The part of a span in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanRole {
    Server,
    Client,
    Internal,
}

/// A span that has ended.
pub(crate) struct FinishedSpan {
    pub(crate) name: String,
    pub(crate) role: SpanRole,
    pub(crate) parent: Option<TraceContext>,
    pub(crate) own: Option<TraceContext>,
    pub(crate) took: Duration,
    pub(crate) attributes: Vec<(&'static str, String)>,
    pub(crate) has_failed: bool,
}

/// The export of traces. Without an endpoint, nothing is exported.
#[derive(Clone)]
pub(crate) struct Traces(Option<Arc<Exporter>>);

struct Exporter {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
}

impl Traces {
    /// Starts the export to `otlp.endpoint`, if it is set. Does not connect yet.
    ///
    /// # Errors
    /// Fails if the HTTP client cannot be built.
    pub(crate) fn start(config: &Config) -> anyhow::Result<Self> {
        let Some(endpoint) = &config.otlp.endpoint else { return Ok(Self(None)) };
        let endpoint = endpoint.trim_end_matches('/');
        let url = if endpoint.ends_with(PATH) { endpoint.to_owned() } else { format!("{endpoint}{PATH}") };
        // A blocking client has a runtime of its own, which must not be made on a thread of another one.
        let client = std::thread::spawn(|| {
            reqwest::blocking::Client::builder().timeout(TIMEOUT).redirect(reqwest::redirect::Policy::none()).build()
        });
        let client = client.join().map_err(|_| anyhow::anyhow!("a panic"))?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client.context("cannot build the HTTP client for traces")?)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(url)
            .with_timeout(TIMEOUT)
            .build()
            .context("configuration: otlp.endpoint")?;
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(DELAY)
            .build();
        let mut processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        let resource = Resource::builder()
            .with_service_name("branchyard")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        processor.set_resource(&resource);
        let scope = InstrumentationScope::builder("branchyard").with_version(env!("CARGO_PKG_VERSION")).build();
        Ok(Self(Some(Arc::new(Exporter { processor, scope }))))
    }

    /// Returns an export that does nothing.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Returns the context of a span in the trace of `received`, or of a span that begins a trace. Without an export, there are no
    /// spans, and the context stays as it is.
    pub(crate) fn child(&self, received: Option<TraceContext>) -> Option<TraceContext> {
        if self.0.is_none() {
            return received;
        }
        match received {
            Some(received) => Some(received.child(rand::random::<[u8; 8]>())),
            None => TraceContext::new(rand::random(), rand::random(), true),
        }
    }

    /// Queues a span that ends now. Drops it if the queue is full, or if the client asked not to record its trace.
    pub(crate) fn export(&self, span: impl FnOnce() -> FinishedSpan) {
        let Some(exporter) = &self.0 else { return };
        let span = span();
        let Some(own) = span.own.filter(TraceContext::is_sampled) else { return };
        let end_time = SystemTime::now();
        let trace_id = TraceId::from_bytes(own.trace_id());
        let span_id = SpanId::from_bytes(own.parent_id());
        let span_context = SpanContext::new(trace_id, span_id, TraceFlags::SAMPLED, false, TraceState::default());
        exporter.processor.on_end(SpanData {
            span_context,
            parent_span_id: span.parent.map_or(SpanId::INVALID, |parent| SpanId::from_bytes(parent.parent_id())),
            parent_span_is_remote: span.parent.is_some(),
            span_kind: match span.role {
                SpanRole::Server => SpanKind::Server,
                SpanRole::Client => SpanKind::Client,
                SpanRole::Internal => SpanKind::Internal,
            },
            name: span.name.into(),
            start_time: end_time.checked_sub(span.took).unwrap_or(end_time),
            end_time,
            attributes: span.attributes.into_iter().map(|(name, value)| KeyValue::new(name, value)).collect(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: if span.has_failed { Status::error("") } else { Status::Unset },
            instrumentation_scope: exporter.scope.clone(),
        });
    }

    /// Sends the spans that wait, for a bounded time.
    pub(crate) fn stop(&self) {
        if let Some(exporter) = &self.0
            && let Err(error) = exporter.processor.shutdown_with_timeout(TIMEOUT)
        {
            tracing::warn!(%error, "cannot export the last spans of traces");
        }
    }
}
