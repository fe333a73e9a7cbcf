//! The engine that runs users' SQL: in worker processes, or in threads of the server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use branchyard_domain::ports::{DatabaseFiles, Engine, EngineError, SqliteFiles};
use branchyard_domain::values::DatabaseId;
use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions};
#[cfg(target_os = "linux")]
use branchyard_engine_process::{ProcessEngine, ProcessOptions, ProcessSqliteFiles, WorkerCommand};

use crate::config::{Config, Isolation};

/// Memory in bytes reserved for SQLite uses other than user statements. Added to the statement budget to form the process-wide
/// limit, which is the last line of defense.
const BESIDE_STATEMENTS: u64 = 1 << 30;

/// The engine of a server, by `sql.isolation`.
#[derive(Debug, Clone)]
pub enum SqlEngine {
    /// Users' SQL runs in threads of the server.
    Thread(Arc<DoltliteEngine>),
    /// Users' SQL runs in worker processes.
    #[cfg(target_os = "linux")]
    Process(Arc<ProcessEngine>),
}

/// Numbers of what an engine keeps open. What an engine does not have is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineLoad {
    /// Idle connections for reads, in this process.
    pub idle_readers: usize,
    /// Idle connections for writes, in this process.
    pub idle_writers: usize,
    /// Worker processes without a database.
    pub blank_workers: usize,
    /// Worker processes that have a database and no call.
    pub idle_workers: usize,
    /// Worker processes with a call.
    pub busy_workers: usize,
    /// Worker processes that were killed since the server started.
    pub killed_workers: u64,
}

impl SqlEngine {
    /// Opens the folder of the databases. `program` runs worker processes. With worker processes, call this before anything else is
    /// opened; with threads, before SQLite is first used, because the memory of statements can be limited only then.
    ///
    /// # Errors
    /// Fails if the folder cannot be used, or if worker processes cannot be started or confined.
    pub fn open(folder: PathBuf, config: &Config, program: &Path, options: EngineOptions) -> anyhow::Result<Self> {
        let options = EngineOptions {
            statement_memory: config.sql.max_memory_bytes,
            total_memory: Some(config.sql.memory_total()),
            // Connection caches and the metadata store use SQLite too. The reserve keeps statements from starving them.
            process_memory: Some((config.sql.memory_total() as u64).saturating_add(BESIDE_STATEMENTS)),
            ..options
        };
        match config.sql.isolation {
            Isolation::Thread => {
                let engine = DoltliteEngine::open(folder, options).context("cannot open the engine's folder")?;
                Ok(Self::Thread(Arc::new(engine)))
            }
            #[cfg(target_os = "linux")]
            Isolation::Process => {
                let arguments = vec!["sql-worker".into()];
                // Statements have no memory in this process.
                let options = EngineOptions { process_memory: Some(BESIDE_STATEMENTS), ..options };
                let options = ProcessOptions {
                    workers: config.sql.workers(),
                    requires_confinement: config.sql.require_confinement,
                    engine: options,
                    ..ProcessOptions::new(WorkerCommand { program: program.to_owned(), arguments })
                };
                let opened = ProcessEngine::open(folder, options).context(
                    "cannot start the worker processes for users' SQL (sql.isolation; `branchyard doctor` says what the kernel offers)",
                )?;
                Ok(Self::Process(Arc::new(opened)))
            }
            #[cfg(not(target_os = "linux"))]
            Isolation::Process => {
                let _ = program;
                anyhow::bail!("configuration: sql.isolation = \"process\" works on Linux only")
            }
        }
    }

    /// Returns the engine as the domain uses it.
    pub fn port(&self) -> Arc<dyn Engine> {
        match self {
            Self::Thread(engine) => Arc::clone(engine) as _,
            #[cfg(target_os = "linux")]
            Self::Process(engine) => Arc::clone(engine) as _,
        }
    }

    /// Returns the files of the engine.
    pub fn files(&self) -> Arc<dyn DatabaseFiles> {
        match self {
            Self::Thread(engine) => Arc::clone(engine) as _,
            #[cfg(target_os = "linux")]
            Self::Process(engine) => Arc::clone(engine) as _,
        }
    }

    /// Returns the reader of SQLite files.
    pub fn sqlite_files(&self) -> Arc<dyn SqliteFiles> {
        match self {
            Self::Thread(engine) => Arc::clone(engine) as _,
            #[cfg(target_os = "linux")]
            Self::Process(engine) => Arc::new(ProcessSqliteFiles(Arc::clone(engine))),
        }
    }

    /// Removes the unfinished files of a server that was killed. Call only in the process that serves the folder, before it
    /// uses the folder.
    ///
    /// # Errors
    /// Fails if something cannot be removed.
    pub fn clear_temporary(&self) -> Result<(), EngineError> {
        match self {
            Self::Thread(engine) => engine.clear_temporary(),
            #[cfg(target_os = "linux")]
            Self::Process(engine) => engine.clear_temporary(),
        }
    }

    /// Copies the file of a database to `to`, and returns the size of the copy in bytes.
    ///
    /// # Errors
    /// Fails if the database has no file, or it cannot be copied.
    pub fn back_up(&self, database: DatabaseId, to: &Path) -> Result<u64, EngineError> {
        match self {
            Self::Thread(engine) => engine.back_up(database, to),
            #[cfg(target_os = "linux")]
            Self::Process(engine) => engine.back_up(database, to),
        }
    }

    /// Replaces the file of a database by a copy of a file that [`Self::back_up`] created.
    ///
    /// # Errors
    /// Fails if the file is not a database of the engine, or cannot be copied.
    pub fn restore(&self, database: DatabaseId, from: &Path) -> Result<(), EngineError> {
        match self {
            Self::Thread(engine) => engine.restore(database, from),
            #[cfg(target_os = "linux")]
            Self::Process(engine) => engine.restore(database, from),
        }
    }

    /// Returns the numbers of what the engine keeps open.
    pub fn load(&self) -> EngineLoad {
        match self {
            Self::Thread(engine) => {
                let (readers, writers) = engine.idle_connections();
                EngineLoad { idle_readers: readers, idle_writers: writers, ..EngineLoad::default() }
            }
            #[cfg(target_os = "linux")]
            Self::Process(engine) => {
                let workers = engine.workers();
                EngineLoad {
                    blank_workers: workers.blank,
                    idle_workers: workers.idle,
                    busy_workers: workers.busy,
                    killed_workers: workers.killed,
                    ..EngineLoad::default()
                }
            }
        }
    }

    /// Ends everything that runs at once, if the engine can: worker processes are killed.
    pub fn close(&self) {
        match self {
            Self::Thread(_) => {}
            #[cfg(target_os = "linux")]
            Self::Process(engine) => engine.close(),
        }
    }
}
