//! Settings of the engine.

use std::path::PathBuf;
use std::time::Duration;

use crate::yield_hook::Long;

/// Settings; the defaults suit a small server.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Idle connections for reads kept open, over all databases and commits.
    pub idle_readers: usize,
    /// Idle connections for writes kept open, over all databases.
    pub idle_writers: usize,
    /// Idle sessions of a deployment's clients kept open, over all databases, branches and callers.
    pub idle_sessions: usize,
    /// The most memory the idle connections for reads may hold together, in bytes, and those for writes as much again: their caches outlive the
    /// statements.
    pub idle_memory: usize,
    /// Page cache of each session, in KiB.
    pub session_cache_kib: usize,
    /// The most memory one statement of a stranger may take, in bytes.
    pub statement_memory: usize,
    /// The most memory all running statements may take together, in bytes; `None` = as much as there is. A statement that finds no room waits for
    /// up to 5 s and then ends with [`EngineError::Busy`](branchyard_domain::ports::EngineError::Busy).
    pub total_memory: Option<usize>,
    /// The most memory everything in the process that uses SQLite may take together, in bytes, 0 for no limit: the last line of defence.
    pub process_memory: Option<u64>,
    /// The folder for temporary files of everything in the process that uses SQLite; `None` for the system's. Set once.
    pub temporary_folder: Option<PathBuf>,
    /// Time a trial merge may take.
    pub trial_merge_timeout: Duration,
    /// Bytes of a database above which [`Engine::conflicts`](branchyard_domain::ports::Engine::conflicts) makes no trial merge unless the
    /// file system shares the blocks of copies.
    pub trial_copy_bytes: u64,
    /// Whether private copies of files share blocks with them where the file system can.
    pub share_blocks: bool,
    /// Time one step of a fetch should keep the writers of the target waiting; a step brings at least one commit.
    pub fetch_step: Duration,
    /// Time finding a page of changed rows may take.
    pub diff_timeout: Duration,
    /// Time counting the changed rows of all tables of a diff may take; later tables come without counts.
    pub count_timeout: Duration,
    /// Time each step of [`Engine::verify`](branchyard_domain::ports::Engine::verify) may take: the check of the file, and counting the rows of a head.
    pub verify_timeout: Duration,
    /// Whom calls that compute for long ask; `None` = they just go on.
    pub long: Option<Long>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            idle_readers: 64,
            idle_writers: 16,
            idle_sessions: 16,
            idle_memory: 48 << 20,
            session_cache_kib: 4000,
            statement_memory: 256 << 20,
            total_memory: None,
            process_memory: Some(1 << 30),
            temporary_folder: None,
            trial_merge_timeout: Duration::from_secs(60),
            trial_copy_bytes: 256 << 20,
            share_blocks: true,
            fetch_step: Duration::from_millis(250),
            diff_timeout: Duration::from_secs(30),
            count_timeout: Duration::from_secs(30),
            verify_timeout: Duration::from_secs(600),
            long: None,
        }
    }
}
