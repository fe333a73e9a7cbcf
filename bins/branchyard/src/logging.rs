//! The log of the server: lines on standard error, written by a thread of their own.
//!
//! `docs/logs.md` describes the fields of the lines; a test keeps that page complete. A span adds its fields to each line within
//! it.

mod access;
mod attempts;
mod finished_span;
mod layer;
mod line;
mod panics;
mod repeats;
mod writer;

#[cfg(feature = "otlp")]
mod otlp;
#[cfg(not(feature = "otlp"))]
#[path = "logging/no_otlp.rs"]
mod otlp;

use std::io::IsTerminal as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use branchyard_http_common::RequestLog;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry};

use crate::config::{Config, LogFormat};
use access::AccessLog;
use layer::LogLayer;
use line::LineFormat;
use writer::LogWriter;

pub(crate) use attempts::{AttemptSpan, DeploymentSpan, RunSpan, recovery};
pub(crate) use otlp::Traces;

/// Log filter to use if `RUST_LOG` is unset. The HTTP libraries log each malformed request or connection, which would let any
/// client fill the log.
const LOGGED: &str = "info,actix_http::h1=off,h2=off";
/// Maximum time that the end of the process waits for lines to be written.
const FLUSH: Duration = Duration::from_secs(2);

/// The log of this process. A process has one, whatever number of servers it runs.
static LOG: OnceLock<(LogWriter, LineFormat)> = OnceLock::new();

/// Writes the waiting lines when it is dropped.
pub(crate) struct LogGuard(());

impl Drop for LogGuard {
    fn drop(&mut self) {
        flush();
    }
}

/// Starts logging to standard error. `RUST_LOG` sets the filter of all lines but those of requests.
///
/// # Errors
/// Fails if the thread that writes cannot be started.
pub(crate) fn start(config: &Config) -> anyhow::Result<LogGuard> {
    let format = match config.log.format {
        LogFormat::Auto if std::io::stderr().is_terminal() => LineFormat::Text,
        LogFormat::Text => LineFormat::Text,
        LogFormat::Auto | LogFormat::Json => LineFormat::Json,
    };
    let writer = LogWriter::to_stderr().context("cannot start the log")?;
    if LOG.set((writer.clone(), format)).is_ok() {
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOGGED));
        // Fails if a test has set a subscriber, which is then kept.
        let _ = Registry::default().with(filter).with(LogLayer::new(writer, format)).try_init();
        panics::log();
    }
    Ok(LogGuard(()))
}

/// Waits until the lines logged so far are written, for a bounded time.
fn flush() {
    if let Some((writer, _)) = LOG.get() {
        writer.flush(FLUSH);
    }
}

/// Returns the number of lines that were dropped because the log could not be written fast enough, or not at all.
pub(crate) fn dropped_lines() -> u64 {
    LOG.get().map_or(0, |(writer, _)| writer.dropped())
}

/// Returns the log of a server's requests.
pub(crate) fn request_log(config: &Config, traces: &Traces) -> RequestLog {
    let log = LOG.get().cloned();
    RequestLog::new(Arc::new(AccessLog::new(log, config.log.access, traces.clone())))
}
