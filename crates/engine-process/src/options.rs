//! Settings of the engine over worker processes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use branchyard_engine_doltlite::{EngineOptions, Long};

/// The command that runs workers: a program that calls [`run_command`](crate::run_command) with its last argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCommand {
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments before the one that this crate appends.
    pub arguments: Vec<OsString>,
}

/// Settings of the engine over worker processes. The defaults suit a small server.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// The command that runs workers.
    pub command: WorkerCommand,
    /// Maximum number of workers that have a database. Each runs one call at a time.
    pub workers: usize,
    /// Number of workers without a database that are kept ready.
    pub blank_workers: usize,
    /// How long a worker may be idle before it ends.
    pub idle: Duration,
    /// Number of calls after which a worker ends.
    pub most_calls: u32,
    /// How long a call waits for a worker before it ends with
    /// [`EngineError::Busy`](branchyard_domain::ports::EngineError::Busy).
    pub worker_wait: Duration,
    /// Time between the interrupt of a call and the end of its worker.
    pub kill_after: Duration,
    /// Whether the engine refuses to start if the kernel cannot confine workers.
    pub requires_confinement: bool,
    /// Whether a worker that makes a system call outside its list is killed. Otherwise the system call fails.
    pub kills: bool,
    /// Maximum length of a `LIKE` or `GLOB` pattern, in bytes.
    pub pattern_bytes: i32,
    /// Settings of the engine in each worker. The numbers of connections, the folder of temporary files and the limit
    /// of the process apply to the server alone.
    pub engine: EngineOptions,
}

impl ProcessOptions {
    /// Returns the default settings with a command.
    pub fn new(command: WorkerCommand) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            command,
            workers: (16 + 2 * cores).min(MOST_WORKERS),
            blank_workers: 4,
            idle: Duration::from_secs(60),
            most_calls: 10_000,
            worker_wait: Duration::from_secs(5),
            kill_after: Duration::from_millis(200),
            requires_confinement: true,
            kills: true,
            pattern_bytes: 1000,
            engine: EngineOptions::default(),
        }
    }

    /// Returns the hook that schedules long calls.
    pub(crate) fn long(&self) -> Option<&Long> {
        self.engine.long.as_ref()
    }
}

/// Maximum number of workers that have a database.
pub const MOST_WORKERS: usize = 64;
