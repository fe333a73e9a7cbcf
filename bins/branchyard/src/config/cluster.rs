//! Configuration of servers that share a metadata store and a store of databases.

use serde::{Deserialize, Serialize};

use super::Span;

/// What servers that share their stores agree on, and what each of them keeps locally.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterConfig {
    /// Origin at which the other servers reach this one. If absent, derived from the address that it listens on.
    pub advertise: Option<String>,
    /// How long a server that does not answer any more keeps the databases that it writes.
    pub lease: Span,
    /// Bytes of local copies of databases that are not in use; 0 means no limit.
    pub cache_bytes: u64,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self { advertise: None, lease: Span::seconds(10), cache_bytes: 0 }
    }
}
