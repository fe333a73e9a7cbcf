//! Configuration of the connections to the metadata store.

use std::time::Duration;

use branchyard_storage::StoreOptions;
use serde::{Deserialize, Serialize};

/// Connections to Postgres. SQLite has as many readers, and one writer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetadataConfig {
    /// Maximum number of connections for transactions that only read.
    pub readers: u32,
    /// Maximum number of connections for transactions that write.
    pub writers: u32,
    /// Whether servers on one Postgres notify each other. To be switched off behind a pooler that gives each transaction another
    /// connection.
    pub listen: bool,
    /// Maximum wait for a connection, or for the keys of other writers, in milliseconds.
    pub wait_ms: u64,
    /// Maximum run time of a statement, in milliseconds.
    pub statement_timeout_ms: u64,
}

impl Default for MetadataConfig {
    fn default() -> Self {
        let StoreOptions { readers, writers, wait, statement } = StoreOptions::default();
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self { readers, writers, listen: true, wait_ms: millis(wait), statement_timeout_ms: millis(statement) }
    }
}

impl MetadataConfig {
    /// Returns the limits of the store.
    pub fn options(&self) -> StoreOptions {
        StoreOptions {
            readers: self.readers,
            writers: self.writers,
            wait: Duration::from_millis(self.wait_ms),
            statement: Duration::from_millis(self.statement_timeout_ms),
        }
    }
}
