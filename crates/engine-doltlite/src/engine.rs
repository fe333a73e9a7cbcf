//! The engine: the state that all calls share.

mod connections;
mod port;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use branchyard_domain::ports::{Engine as _, EngineError, Reachability, SessionRequest};
use branchyard_domain::values::{CommitHash, DatabaseId};
use parking_lot::Mutex;

use self::connections::ReaderKey;
use crate::ancestry::Ancestry;
use crate::branch;
use crate::chunks::ChunkFile;
use crate::commits::{self, AncestorCache};
use crate::files::Files;
use crate::format::{FormatCheck, format_of, refuse_newer};
use crate::guard::GuardSettings;
use crate::idle_connections::IdleConnections;
use crate::memory::{self, MemoryPool};
use crate::merge_preview::Trials;
use crate::options::EngineOptions;
use crate::put_off::PutOffCopies;
use crate::queue::{WriteQueues, WriteTurn};
use crate::reach::Scope;
use crate::sql::errors;
use crate::watchdog::Watchdog;
use crate::write_preview::PreviewCopies;

/// An engine that stores databases as DoltLite files in a folder.
pub struct DoltliteEngine {
    pub(crate) options: EngineOptions,
    pub(crate) files: Files,
    pub(crate) queues: WriteQueues,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) ancestors: Mutex<AncestorCache>,
    pub(crate) trials: Trials,
    pub(crate) preview_copies: PreviewCopies,
    readers: IdleConnections<ReaderKey>,
    writers: IdleConnections<()>,
    pub(crate) chunk_files: IdleConnections<(), ChunkFile>,
    pub(crate) sessions: Arc<IdleConnections<SessionRequest>>,
    guard: Arc<GuardSettings>,
    pub(crate) ancestry: Arc<Ancestry>,
    /// The last proof on a fresh connection.
    pub(crate) proved: Mutex<Option<(DatabaseId, Instant)>>,
    reachability: OnceLock<Arc<dyn Reachability>>,
    formats: FormatCheck,
    pub(crate) put_off: PutOffCopies,
}

impl std::fmt::Debug for DoltliteEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DoltliteEngine")
            .field("files", &self.files)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl DoltliteEngine {
    /// Opens the folder of the databases, and creates it if it does not exist. Only one process at a time may use a
    /// folder.
    ///
    /// Call this before anything else in the process uses SQLite: otherwise single statements have no memory limit.
    ///
    /// # Errors
    /// [`EngineError`] when the folder cannot be used.
    pub fn open(folder: PathBuf, options: EngineOptions) -> Result<Self, EngineError> {
        memory::set_up(options.process_memory);
        let files = Files::open(folder).map_err(|error| io_fault("open the folder of the databases", error))?;
        Self::on(files, options)
    }

    /// Creates an engine on `files`.
    pub(crate) fn on(files: Files, options: EngineOptions) -> Result<Self, EngineError> {
        #[cfg(target_os = "linux")]
        crate::second_names::allow_second_names().map_err(|error| io_fault("allow files with second names", error))?;
        if let Some(folder) = &options.temporary_folder {
            set_temporary_folder(folder).map_err(|error| errors::fault("set the folder of temporary files", error))?;
        }
        let lender = options.lender.clone().unwrap_or_else(|| Arc::new(MemoryPool::new(options.total_memory)));
        let watchdog = Watchdog::start(options.long.clone(), options.statement_memory, lender)
            .map_err(|error| io_fault("start the watchdog", error))?;
        let watchdog = Arc::new(watchdog);
        let guard = GuardSettings {
            modules: all_modules().map_err(|error| errors::fault("ask for the engine's modules", error))?,
            pattern_bytes: options.pattern_bytes,
            bounded_functions: options.bounded_functions,
        };
        Ok(Self {
            readers: IdleConnections::new(options.idle_readers, options.idle_memory),
            writers: IdleConnections::new(options.idle_writers, options.idle_memory),
            chunk_files: IdleConnections::new(options.idle_writers, options.idle_memory),
            // Sessions move between threads, so their memory cannot be measured; their caches are small.
            sessions: Arc::new(IdleConnections::new(options.idle_sessions, usize::MAX)),
            queues: WriteQueues::behind(options.gate.clone()),
            options,
            files,
            watchdog,
            ancestors: Mutex::default(),
            trials: Trials::default(),
            preview_copies: PreviewCopies::default(),
            proved: Mutex::default(),
            guard: Arc::new(guard),
            ancestry: Arc::default(),
            reachability: OnceLock::new(),
            formats: FormatCheck::default(),
            put_off: PutOffCopies::default(),
        })
    }

    /// Returns the number of idle connections for reads and for writes. Connections in use are not counted.
    pub fn idle_connections(&self) -> (usize, usize) {
        (self.readers.idle(), self.writers.idle())
    }

    /// Removes the unfinished files of a process that was killed. Only the process that serves the folder may call
    /// this, and only before it uses the folder.
    ///
    /// # Errors
    /// [`EngineError`] when something cannot be removed.
    pub fn clear_temporary(&self) -> Result<(), EngineError> {
        self.files.clear_temporary().map_err(|error| io_fault("remove temporary files", error))
    }

    /// Copies the file of a database to `to`, and returns the size of the copy in bytes. The copy holds every commit
    /// that existed at the time of the call, regardless of concurrent writes by other threads and processes.
    ///
    /// # Errors
    /// [`EngineError`]; [`EngineError::Damaged`] when the database has no file.
    pub fn back_up(&self, database: DatabaseId, to: &std::path::Path) -> Result<u64, EngineError> {
        self.make_copy(database)?;
        if !commits::exists(self, database) {
            return Err(missing(database));
        }
        commits::copy_file(&self.files.path(database), to).map_err(|error| io_fault("back up a database", error))
    }

    /// Returns the path of a database's file relative to the folder of an engine.
    pub fn place(database: DatabaseId) -> PathBuf {
        Files::place(database)
    }

    /// Replaces the file of a database by a copy of a file that [`DoltliteEngine::back_up`] created.
    ///
    /// # Errors
    /// [`EngineError`] when it is not a database of the engine, or cannot be copied.
    pub fn restore(&self, database: DatabaseId, from: &std::path::Path) -> Result<(), EngineError> {
        refuse_newer(format_of(from).map_err(|error| io_fault("read the file to restore", error))?)?;
        commits::install_copy(self, from, database, branch::rename)
    }

    pub(crate) fn scope(&self, database: DatabaseId, at: &CommitHash) -> Option<Arc<Scope>> {
        let reachability = Arc::clone(self.reachability.get()?);
        Some(Arc::new(Scope {
            database,
            at: at.clone(),
            reachability,
            ancestry: Arc::clone(&self.ancestry),
            path: self.files.path(database),
            guard: Arc::clone(&self.guard),
            state: Mutex::default(),
        }))
    }

    /// Checks that the engine may open the file of a database. Makes it before if the copy was put off.
    pub(crate) fn check_format(&self, database: DatabaseId) -> Result<(), EngineError> {
        // Another process has checked the files that it passes on.
        if self.files.is_provided() || self.formats.has_passed(database) {
            return Ok(());
        }
        self.make_copy(database)?;
        self.formats.check(database, &self.files.path(database))
    }

    /// Returns the settings of the guards.
    pub(crate) fn guard(&self) -> &Arc<GuardSettings> {
        &self.guard
    }

    /// Moves a finished file to the place of the file of a database.
    pub(crate) fn install(&self, turn: &WriteTurn, new: &Path) -> io::Result<()> {
        self.evict(turn.database());
        let installed = self.files.install(new, turn.database());
        self.evict(turn.database());
        installed
    }

    /// Closes the connections and clears the caches of a database, before or after its file is replaced.
    pub(crate) fn evict(&self, database: DatabaseId) {
        self.readers.evict(database);
        self.writers.evict(database);
        self.chunk_files.evict(database);
        self.sessions.evict(database);
        self.ancestors.lock().forget(database);
        self.trials.forget(database);
        self.ancestry.forget(database);
        self.formats.forget(database);
    }
}

/// Returns the error for a database that has no file.
pub fn missing(database: DatabaseId) -> EngineError {
    EngineError::Damaged(format!("the file of database {database} is missing"))
}

/// Returns the error for a failed operation on a file. `context` says what failed.
pub fn io_fault(context: &str, error: std::io::Error) -> EngineError {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            EngineError::Unavailable(format!("{context}: {error}"))
        }
        _ => EngineError::Fault { context: context.to_owned(), source: Box::new(error) },
    }
}

/// Sets the folder for temporary files of the whole process. Must run before a connection that could need the folder is
/// opened.
fn set_temporary_folder(folder: &std::path::Path) -> rusqlite::Result<()> {
    let connection = rusqlite::Connection::open_in_memory()?;
    connection.pragma_update(None, "temp_store_directory", folder.to_string_lossy())
}

/// Returns the names of all virtual table modules, in lower case.
fn all_modules() -> rusqlite::Result<HashSet<String>> {
    let connection = rusqlite::Connection::open_in_memory()?;
    let mut statement = connection.prepare("SELECT lower(name) FROM pragma_module_list")?;
    statement.query_map([], |row| row.get(0))?.collect()
}
