//! Settings of the log and of traces.

use anyhow::bail;
use serde::{Deserialize, Serialize};

/// Format of the lines of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text if standard error is a terminal, otherwise JSON.
    Auto,
    /// Text for people.
    Text,
    /// One JSON object per line. `docs/logs.md` describes its fields.
    Json,
}

/// The log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// Format of the lines.
    pub format: LogFormat,
    /// Fraction of requests that get an access line, from 0 to 1.
    pub access: f64,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Auto, access: 1.0 }
    }
}

/// Export of traces.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OtlpConfig {
    /// Base URL of the receiver of traces. If absent, traces are not exported.
    pub endpoint: Option<String>,
}

impl OtlpConfig {
    /// Refuses an endpoint that is no URL, and every endpoint if this program cannot export traces.
    ///
    /// # Errors
    /// Returns an error that names the key and what to do.
    pub fn check(&self) -> anyhow::Result<()> {
        let Some(endpoint) = &self.endpoint else { return Ok(()) };
        if !cfg!(feature = "otlp") {
            bail!(
                "configuration: otlp.endpoint is set, but this program was built without the feature otlp; \
                 build it with `--features otlp`, or remove the setting"
            );
        }
        let url = reqwest::Url::parse(endpoint);
        if !url.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
            bail!("configuration: otlp.endpoint is '{endpoint}'; write it as http://host:4318");
        }
        Ok(())
    }
}
