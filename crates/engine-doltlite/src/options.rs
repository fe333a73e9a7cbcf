//! Settings of the engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::memory::MemoryLender;
use crate::queue::TurnGate;
use crate::yield_hook::Long;

/// Settings of the engine. The defaults suit a small server.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Maximum number of idle read connections, over all databases and commits.
    pub idle_readers: usize,
    /// Maximum number of idle write connections, over all databases, and of idle files for chunks.
    pub idle_writers: usize,
    /// Maximum number of idle sessions of deployment clients, over all databases, branches and callers.
    pub idle_sessions: usize,
    /// Maximum memory of all idle read connections together, in bytes; idle write connections may hold the same amount
    /// again. The caches of a connection outlive its statements.
    pub idle_memory: usize,
    /// Page cache of each session, in KiB.
    pub session_cache_kib: usize,
    /// Maximum memory of one user statement, in bytes. A write may take twice as much ([`Self::write_memory`]).
    pub statement_memory: usize,
    /// Maximum memory of all running user statements together, in bytes; `None` sets no limit. A statement that finds
    /// too little free memory waits for up to 5 s and then ends with
    /// [`EngineError::Busy`](branchyard_domain::ports::EngineError::Busy).
    pub total_memory: Option<usize>,
    /// Source of the memory of user statements, instead of `total_memory`.
    pub lender: Option<Arc<dyn MemoryLender>>,
    /// Gate that every write passes after its turn has come, for engines that share a file with those of other
    /// processes; `None` lets every write pass.
    pub gate: Option<Arc<dyn TurnGate>>,
    /// Maximum length of a `LIKE` or `GLOB` pattern of a user statement, in bytes. The time of one comparison is the
    /// product of the lengths of pattern and text, and the engine's own functions cannot be interrupted in one.
    pub pattern_bytes: i32,
    /// Whether functions that cannot be interrupted are replaced by bounded ones. Without them only the end of the
    /// process stops some calls.
    pub bounded_functions: bool,
    /// Maximum memory of everything in the process that uses SQLite, in bytes; `None` or 0 sets no limit. This limit is
    /// the last line of defense.
    pub process_memory: Option<u64>,
    /// Folder for the temporary files of everything in the process that uses SQLite; `None` keeps the system's. Applies
    /// to the whole process.
    pub temporary_folder: Option<PathBuf>,
    /// Time limit of a trial merge.
    pub trial_merge_timeout: Duration,
    /// Database size in bytes above which [`Engine::conflicts`](branchyard_domain::ports::Engine::conflicts) runs no
    /// trial merge unless the file system shares the blocks of copies.
    pub trial_copy_bytes: u64,
    /// Whether private copies share blocks with the original file where the file system supports block sharing.
    pub share_blocks: bool,
    /// Time that one step of a fetch should keep the writers of the target waiting. A step fetches at least one commit.
    pub fetch_step: Duration,
    /// Time limit for finding a page of changed rows.
    pub diff_timeout: Duration,
    /// Time limit for counting the changed rows of all tables of a diff. Tables that are not reached in time have no
    /// counts.
    pub count_timeout: Duration,
    /// Time limit of each step of [`Engine::verify`](branchyard_domain::ports::Engine::verify): the check of the file,
    /// and the row count of each head.
    pub verify_timeout: Duration,
    /// Hook that schedules long-running calls; `None` lets them run without interruption.
    pub long: Option<Long>,
}

/// The memory of a write in units of the memory of a statement. The engine keeps up to 64 MiB of changes to each table
/// and index before it writes them to the file, and needs about a third more to do so.
const WRITE_SHARE: usize = 2;

impl EngineOptions {
    /// Returns the maximum memory of one write, in bytes. Few writes run at once, because each database runs one at a
    /// time.
    pub fn write_memory(&self) -> usize {
        self.statement_memory.saturating_mul(WRITE_SHARE)
    }
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
            lender: None,
            gate: None,
            pattern_bytes: 100,
            bounded_functions: true,
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
