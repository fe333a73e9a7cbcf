//! Configuration of remotes.

use std::time::Duration;

use branchyard_http_common::RemoteLimits;
use serde::{Deserialize, Serialize};

/// Remotes: clones and fetches by clients of the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Remotes {
    /// Whether databases can be cloned and fetched.
    pub enabled: bool,
    /// Maximum number of branches and tags together that a client receives.
    pub max_refs: usize,
    /// Maximum number of concurrent requests for chunks.
    pub max_concurrent: usize,
    /// Maximum time in milliseconds that a request for chunks waits before it is answered 503.
    pub hold_ms: u64,
}

impl Default for Remotes {
    fn default() -> Self {
        Self { enabled: true, max_refs: 5_000, max_concurrent: 32, hold_ms: 20_000 }
    }
}

impl Remotes {
    /// Returns the limits of the adapter.
    pub(super) fn limits(&self) -> RemoteLimits {
        let hold = Duration::from_millis(self.hold_ms);
        RemoteLimits { enabled: self.enabled, max_concurrent: self.max_concurrent, hold }
    }
}
