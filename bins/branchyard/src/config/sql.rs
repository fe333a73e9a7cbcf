//! Settings of users' SQL.

use branchyard_executor::SlowPlaces;
use serde::{Deserialize, Serialize};

use super::machine;

/// Upper limit of `sql.workers`.
pub(crate) const MOST_WORKERS: usize = 64;

/// Where users' SQL runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// In confined worker processes, which can be killed. Linux only.
    Process,
    /// In threads of the server, for trusted users.
    Thread,
}

/// How users' SQL statements run, and limits of the statements and of their results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SqlConfig {
    /// Where users' SQL runs.
    pub isolation: Isolation,
    /// Whether callers without a credential may run SQL, on databases that allow it.
    pub anonymous: bool,
    /// Maximum number of worker processes that have a database; 0 means 32 and four per core, at most 64.
    pub workers: usize,
    /// Whether the server refuses to start if the kernel cannot confine worker processes.
    pub require_confinement: bool,
    /// Row limit of a read that requests none.
    pub default_limit: u64,
    /// Maximum row limit of a read.
    pub row_cap: u64,
    /// Timeout in milliseconds of a read that requests none.
    pub default_timeout_ms: u64,
    /// Maximum timeout of a read, in milliseconds.
    pub timeout_cap_ms: u64,
    /// Timeout of a write, in milliseconds.
    pub write_timeout_ms: u64,
    /// Maximum number of concurrent reads.
    pub max_concurrent_reads: usize,
    /// Maximum number of concurrent reads that compute, rather than wait for their client; 0 means two per core.
    pub max_computing_reads: usize,
    /// Maximum number of concurrent reads of one caller.
    pub max_concurrent_reads_per_caller: usize,
    /// Capacity of the queue of waiting reads.
    pub read_queue_length: usize,
    /// Maximum queue wait of a read, in milliseconds.
    pub read_queue_wait_ms: u64,
    /// Maximum size in bytes of a statement in a request body.
    pub max_statement_bytes: usize,
    /// Maximum size in bytes of a statement in a URL.
    pub max_statement_bytes_get: usize,
    /// Maximum size of a JSON response in bytes.
    pub max_response_bytes: usize,
    /// Size of the result cache in bytes; 0 disables the cache.
    pub result_cache_bytes: u64,
    /// Memory limit of a statement, in bytes.
    pub max_memory_bytes: usize,
    /// Memory limit of all running statements together, in bytes; 0 means a quarter of the machine's memory, at most 1 GiB.
    pub memory_total_bytes: usize,
    /// Maximum time in milliseconds in which the client of a streamed result reads nothing. Slower clients are disconnected.
    pub stream_stall_ms: u64,
}

impl Default for SqlConfig {
    fn default() -> Self {
        Self {
            isolation: if cfg!(target_os = "linux") { Isolation::Process } else { Isolation::Thread },
            anonymous: true,
            workers: 0,
            require_confinement: true,
            default_limit: 1_000,
            row_cap: 10_000,
            default_timeout_ms: 30_000,
            timeout_cap_ms: 60_000,
            write_timeout_ms: 60_000,
            max_concurrent_reads: 64,
            max_computing_reads: 0,
            max_concurrent_reads_per_caller: 8,
            read_queue_length: 256,
            read_queue_wait_ms: 5_000,
            max_statement_bytes: 1 << 20,
            max_statement_bytes_get: 32 << 10,
            max_response_bytes: 15 << 20,
            result_cache_bytes: 16 << 20,
            max_memory_bytes: 256 << 20,
            memory_total_bytes: 0,
            stream_stall_ms: 30_000,
        }
    }
}

impl SqlConfig {
    /// Returns the maximum number of worker processes that have a database.
    pub fn workers(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if self.workers == 0 { (32 + 4 * cores).min(MOST_WORKERS) } else { self.workers }
    }

    /// Returns the maximum number of concurrent reads that have not become slow. With worker processes, `writers` of them may be
    /// writing, and an eighth of the others is kept, so that the slow reads of one caller do not keep all others out.
    pub fn concurrent_reads(&self, writers: usize) -> usize {
        let places = self.slow_places(writers);
        places.map_or(self.max_concurrent_reads, |places| {
            self.max_concurrent_reads.min(places.most.saturating_sub(places.spare).max(1))
        })
    }

    /// Returns the limit of slow reads that have begun. With worker processes, of which `writers` may be writing, one is kept for
    /// short reads. `None` without worker processes.
    pub fn slow_places(&self, writers: usize) -> Option<SlowPlaces> {
        if self.isolation == Isolation::Thread {
            return None;
        }
        let readers = self.workers().saturating_sub(writers).max(1);
        let kept = (readers / 8).max(1);
        Some(SlowPlaces { most: (readers - 1).max(1), spare: kept - 1 })
    }

    /// Returns the memory limit of all running statements together, in bytes.
    pub fn memory_total(&self) -> usize {
        match self.memory_total_bytes {
            0 => machine::share_of_memory(),
            bytes => bytes,
        }
    }
}
