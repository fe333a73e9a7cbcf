//! The access line of each request.

use std::time::SystemTime;

use branchyard_domain::values::TraceContext;
use branchyard_http_common::{EndedRequest, RequestObserver};
use tracing::Level;

use super::line::{Line, LineFormat, write_line};
use super::otlp::{FinishedSpan, SpanRole, Traces};
use super::writer::LogWriter;
use crate::metrics::method_word;

/// Target of access lines.
const TARGET: &str = "access";

/// Writes the access lines, and exports the spans of requests.
pub(super) struct AccessLog {
    /// The log; `None` in tests, which run servers without one.
    log: Option<(LogWriter, LineFormat)>,
    /// Fraction of requests that get a line.
    fraction: f64,
    traces: Traces,
}

impl AccessLog {
    pub(super) fn new(log: Option<(LogWriter, LineFormat)>, fraction: f64, traces: Traces) -> Self {
        Self { log, fraction, traces }
    }

    fn is_chosen(&self) -> bool {
        self.fraction >= 1.0 || (self.fraction > 0.0 && rand::random::<f64>() < self.fraction)
    }
}

impl RequestObserver for AccessLog {
    fn began(&self, received: Option<TraceContext>) -> Option<TraceContext> {
        self.traces.child(received)
    }

    fn ended(&self, request: &EndedRequest<'_>) {
        if let Some((writer, format)) = &self.log
            && self.is_chosen()
        {
            let head = (SystemTime::now(), Level::INFO, TARGET);
            write_line(*format, head, |line| fill(line, request), |line| writer.push(line));
        }
        self.traces.export(|| finished(request));
    }
}

/// Returns the duration in milliseconds.
fn millis(request: &EndedRequest<'_>) -> f64 {
    request.latency.as_secs_f64() * 1e3
}

fn fill(line: &mut Line<'_>, request: &EndedRequest<'_>) {
    line.message(format_args!("request"));
    line.text("request_id", format_args!("{}", request.id));
    line.text("method", format_args!("{}", method_word(request.method)));
    line.text("route", format_args!("{}", request.route));
    line.plain("status", format_args!("{}", request.status));
    line.plain("latency_ms", format_args!("{:.3}", millis(request)));
    line.plain("bytes", format_args!("{}", request.bytes));
    if let Some(user) = request.user {
        line.text("user_id", format_args!("{user}"));
    }
    if let Some(database) = &request.subject.database {
        line.text("database", format_args!("{database}"));
    }
    if let Some(operation) = request.subject.operation {
        line.text("operation_id", format_args!("{operation}"));
    }
    if let Some(trace) = &request.received {
        line.text("trace_id", format_args!("{}", trace.trace_id_text()));
    }
}

fn finished(request: &EndedRequest<'_>) -> FinishedSpan {
    let method = method_word(request.method);
    let mut attributes = vec![
        ("http.request.method", method.to_owned()),
        ("http.route", request.route.to_owned()),
        ("http.response.status_code", request.status.to_string()),
        ("http.response.body.size", request.bytes.to_string()),
        ("request_id", request.id.to_owned()),
    ];
    attributes.extend(request.user.map(|user| ("user_id", user.to_string())));
    attributes.extend(request.subject.database.as_ref().map(|database| ("database", database.to_string())));
    attributes.extend(request.subject.operation.map(|operation| ("operation_id", operation.to_string())));
    FinishedSpan {
        name: format!("{method} {}", request.route),
        role: SpanRole::Server,
        parent: request.received,
        own: request.own,
        took: request.latency,
        attributes,
        has_failed: request.status >= 500 || request.status == 499,
    }
}

#[cfg(test)]
mod tests {
    use super::{AccessLog, Traces};

    #[test]
    fn the_fraction_of_requests_is_that_of_the_setting() {
        let chosen = |fraction| {
            let log = AccessLog::new(None, fraction, Traces::none());
            (0..10_000).filter(|_| log.is_chosen()).count()
        };
        assert_eq!((chosen(0.0), chosen(1.0)), (0, 10_000));
        // Ten standard deviations, so that chance does not fail the test.
        assert!((2_000..=3_000).contains(&chosen(0.25)));
    }
}
