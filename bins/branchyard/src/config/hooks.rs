//! Configuration of webhooks.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use branchyard_hooks::{AddressPolicy, SenderOptions};
use serde::{Deserialize, Serialize};

use super::list::list;
use super::{Config, Span};

/// Webhook limits, retry schedule, and egress policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HooksConfig {
    /// Maximum number of webhooks of a database.
    pub max_per_database: u64,
    /// Networks that webhooks may reach in addition to the public internet.
    #[serde(deserialize_with = "list")]
    pub allowed_cidrs: Vec<String>,
    /// Timeout of a delivery attempt, in milliseconds.
    pub timeout_ms: u64,
    /// Number of bytes of a response body to store.
    pub response_bytes: usize,
    /// Delay before each delivery attempt, in milliseconds.
    #[serde(deserialize_with = "list")]
    pub retry_delays_ms: Vec<u64>,
    /// Duration of uninterrupted failure after which a webhook is disabled.
    pub disable_after: Span,
    /// Maximum number of concurrent delivery attempts.
    pub concurrency: usize,
    /// Time for which delivery attempts may go on once the server is asked to stop.
    pub shutdown_grace: Span,
    /// Retention of completed deliveries.
    pub log_retention: Span,
    /// PEM file with additional TLS root certificates.
    pub extra_ca_file: Option<PathBuf>,
}

impl Default for HooksConfig {
    fn default() -> Self {
        Self {
            max_per_database: 20,
            allowed_cidrs: Vec::new(),
            timeout_ms: 15_000,
            response_bytes: 16 << 10,
            retry_delays_ms: [0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]
                .map(|seconds| seconds * 1_000)
                .to_vec(),
            disable_after: Span::seconds(5 * 86_400),
            concurrency: 64,
            shutdown_grace: Span::seconds(5),
            log_retention: Span::seconds(30 * 86_400),
            extra_ca_file: None,
        }
    }
}

impl HooksConfig {
    fn policy(&self) -> anyhow::Result<AddressPolicy> {
        AddressPolicy::opening(&self.allowed_cidrs).context("configuration: hooks.allowed_cidrs")
    }

    /// Validates the settings that are not plain numbers.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.policy().map(drop)
    }
}

impl Config {
    /// Returns the settings for delivery attempts.
    ///
    /// # Errors
    /// Returns an error that names the invalid key.
    pub fn sender_options(&self) -> anyhow::Result<SenderOptions> {
        Ok(SenderOptions {
            policy: self.hooks.policy()?,
            timeout: Duration::from_millis(self.hooks.timeout_ms),
            response_bytes: self.hooks.response_bytes,
            extra_ca_file: self.hooks.extra_ca_file.clone(),
        })
    }
}
