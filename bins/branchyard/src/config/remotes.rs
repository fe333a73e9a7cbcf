//! Configuration of remotes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use branchyard_domain::ports::Clock;
use branchyard_egress::{AddressPolicy, Egress, Names};
use branchyard_http_common::RemoteLimits;
use branchyard_remote_client::{RemoteLimits as SourceLimits, SourceOptions};
use serde::{Deserialize, Serialize};

use super::Span;
use super::list::list;

/// Maximum length of the branches and tags of the source of a mirror, in bytes.
const SOURCE_REFS_BYTES: usize = 16 << 20;
/// Time for one sync of a mirror.
const SYNC: Duration = Duration::from_secs(3_600);

/// Remotes: clones, fetches and pushes by clients of the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Remotes {
    /// Whether databases can be cloned, fetched and pushed to.
    pub enabled: bool,
    /// Maximum number of branches and tags together that a client receives.
    pub max_refs: usize,
    /// Maximum number of concurrent requests for chunks.
    pub max_concurrent: usize,
    /// Maximum time in milliseconds that a request waits, for its turn or for a push, before it is answered 503.
    pub hold_ms: u64,
    /// Maximum number of bytes that a user uploads for pushes to a database before one takes them over.
    pub max_push_bytes: u64,
    /// Maximum number of bytes of an uploaded chunk.
    pub max_chunk_bytes: usize,
    /// How long uploaded chunks are kept after the last upload.
    pub quarantine_ttl: Span,
    /// How long commits can still be cloned and fetched after their branch or tag was deleted or moved by force.
    pub grace: Span,
    /// Time limit in milliseconds for the check of a pushed commit.
    pub check_timeout_ms: u64,
    /// Maximum number of keys per user.
    pub max_keys_per_user: u64,
    /// Names of hosts, besides that of `public_url`, by which clients reach the server.
    pub extra_audiences: Vec<String>,
    /// Networks that mirrors may reach in addition to the public internet.
    #[serde(deserialize_with = "list")]
    pub allowed_cidrs: Vec<String>,
    /// PEM file with additional TLS root certificates for mirrors.
    pub extra_ca_file: Option<PathBuf>,
}

impl Default for Remotes {
    fn default() -> Self {
        Self {
            enabled: true,
            max_refs: 5_000,
            max_concurrent: 32,
            hold_ms: 20_000,
            max_push_bytes: 2 << 30,
            max_chunk_bytes: 64 << 20,
            quarantine_ttl: Span::seconds(3_600),
            grace: Span::seconds(3_600),
            check_timeout_ms: 300_000,
            max_keys_per_user: 20,
            extra_audiences: Vec::new(),
            allowed_cidrs: Vec::new(),
            extra_ca_file: None,
        }
    }
}

impl Remotes {
    fn policy(&self) -> anyhow::Result<AddressPolicy> {
        AddressPolicy::opening(&self.allowed_cidrs).context("configuration: remotes.allowed_cidrs")
    }

    /// Validates the settings that are not plain numbers.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.policy().map(drop)
    }

    /// Returns the settings for requests to the sources of mirrors.
    ///
    /// # Errors
    /// Returns an error that names the invalid key.
    pub(crate) fn source_options(&self, names: Arc<dyn Names>, clock: Arc<dyn Clock>) -> anyhow::Result<SourceOptions> {
        let egress = Egress::new(self.policy()?, names, self.extra_ca_file.as_deref())
            .context("configuration: remotes.extra_ca_file")?;
        let limits = SourceLimits { chunk_bytes: self.max_chunk_bytes, refs_bytes: SOURCE_REFS_BYTES, time: SYNC };
        Ok(SourceOptions { egress, clock, limits })
    }

    /// Returns the limits of the adapter.
    pub(super) fn limits(&self) -> RemoteLimits {
        let hold = Duration::from_millis(self.hold_ms);
        RemoteLimits {
            enabled: self.enabled,
            max_concurrent: self.max_concurrent,
            hold,
            max_chunk_bytes: self.max_chunk_bytes,
            extra_audiences: self.extra_audiences.clone(),
        }
    }
}
