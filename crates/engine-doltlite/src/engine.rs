//! The engine: the state that all calls share, and the implementation of the port.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use branchyard_domain::entities::{
    Commit, Conflict, LogEntry, LogPosition, SchemaObject, Signature, TableChange, TableSchema,
};
use branchyard_domain::ports::{
    BatchedWrite, ChangedRows, Chunk, Collected, ColumnQuery, ColumnValues, Engine, EngineError, HeldChunk,
    HistoryPage, HistoryPosition, HistoryQuery, ImportJob, KeptCommits, KeptHeads, MergeJob, MergeOutcome, PreviewJob,
    Previewed, PushedHistory, Reachability, ReadQuery, ReadReport, RecordedFormats, RowPage, RowSink, RowSource,
    RowTest, ScriptJob, Selected, Selection, SessionRequest, SqliteExport, TableScan, WriteJob, Written,
    write_one_by_one,
};
use branchyard_domain::values::{ChunkHash, CommitHash, CommitPrefix, DatabaseId};
use parking_lot::Mutex;

use crate::ancestry::Ancestry;
use crate::branch;
use crate::chunks::{self, ChunkFile};
use crate::commits::{self, AncestorCache};
use crate::connection::{Connection, ConnectionUse};
use crate::diff::Comparison;
use crate::files::Files;
use crate::format::{FormatCheck, NEWEST_FORMAT, format_of, refuse_newer};
use crate::guard::GuardSettings;
use crate::idle_connections::IdleConnections;
use crate::memory::{self, Allocated, MemoryPool};
use crate::merge_preview::{self, Trials};
use crate::options::EngineOptions;
use crate::put_off::PutOffCopies;
use crate::queue::{WriteQueues, WriteTurn};
use crate::reach::{Scope, parents_of};
use crate::sql::{errors, shape};
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

/// Distinguishes the read connections of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReaderKey {
    /// The commit that the connection is fixed to.
    at: Option<CommitHash>,
    /// Whether the connection serves user statements only.
    wrapped: bool,
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

    /// Runs `work` on a connection fixed to a commit, inside one read transaction.
    pub(crate) fn reading<T>(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        work: impl FnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.reading_at(database, Some(at), false, work)
    }

    /// Works like [`Self::reading`] for user statements, which see only the commits that the database shows.
    fn reading_guarded<T>(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        work: impl FnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.reading_at(database, Some(at), true, |connection| {
            work(connection).map_err(|error| errors::in_commit(at, error))
        })
    }

    /// Runs `work`, which may query the history of any commit, inside one read transaction.
    pub(crate) fn reading_history<T>(
        &self,
        database: DatabaseId,
        work: impl FnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.reading_at(database, None, false, work)
    }

    fn reading_at<T>(
        &self,
        database: DatabaseId,
        at: Option<&CommitHash>,
        guarded: bool,
        work: impl FnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let (generation, before) = (self.readers.generation(), Allocated::now());
        let mut key = ReaderKey { at: at.cloned(), wrapped: guarded };
        let mut pooled = self.readers.take(database, &key);
        if guarded && pooled.is_none() {
            key.wrapped = false;
            pooled = self.readers.take(database, &key);
        }
        let connection = match pooled {
            Some(connection) => connection,
            None => self.open_connection(database, at.map_or(ConnectionUse::History, ConnectionUse::Read))?,
        };
        if let Some(at) = at.filter(|_| guarded && !connection.is_limited()) {
            connection.limit_to(self.scope(database, at));
        }
        connection.begin_read().map_err(|error| match at {
            Some(at) => errors::fault_at("begin a read", at, error),
            None => errors::fault("begin a read", error),
        })?;
        let result = work(&connection);
        key.wrapped = connection.is_wrapped();
        if !key.wrapped {
            connection.limit_to(None);
        }
        let rolled_back = connection.roll_back();
        let is_sound = connection.is_sound_since(before);
        match rolled_back {
            Ok(()) if !is_sound => {}
            Ok(()) => self.readers.put(database, key, connection, generation),
            Err(error) => tracing::warn!(database_id = %database, %error, "closing a connection"),
        }
        result
    }

    /// Works like [`Self::reading`] with a time limit, for internal statements whose duration depends on the amount of
    /// data.
    pub(crate) fn reading_within<T>(
        &self,
        timeout: Duration,
        database: DatabaseId,
        at: &CommitHash,
        context: &str,
        work: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, EngineError> {
        self.reading(database, at, |connection| {
            self.timing(timeout, connection, work, |error| errors::fault_at(context, at, error))
        })
    }

    /// Runs `work` on a connection with a time limit. `fault` returns the error of a statement that failed for another reason.
    pub(crate) fn timing<T>(
        &self,
        timeout: Duration,
        connection: &Connection,
        work: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
        fault: impl Fn(rusqlite::Error) -> EngineError,
    ) -> Result<T, EngineError> {
        let timed = connection.limit_time(&self.watchdog, timeout).map_err(&fault)?;
        match work(connection) {
            Err(error) if errors::cut_short(&error) => Err(timed.ended().unwrap_or_else(|| fault(error))),
            other => other.map_err(&fault),
        }
    }

    /// Runs `work` on the write connection of a database. A transaction that `work` leaves open is rolled back.
    pub(crate) fn writing<T>(
        &self,
        turn: &WriteTurn,
        work: impl FnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let database = turn.database();
        let (generation, before) = (self.writers.generation(), Allocated::now());
        let connection = match self.writers.take(database, &()) {
            Some(connection) => connection,
            None => self.open_connection(database, ConnectionUse::Write)?,
        };
        let result = work(&connection);
        if connection.is_wrapped() {
            return result;
        }
        let rolled_back = connection.roll_back();
        let is_sound = connection.is_sound_since(before);
        match rolled_back {
            Ok(()) if !is_sound => {}
            Ok(()) => self.writers.put(database, (), connection, generation),
            Err(error) => tracing::warn!(database_id = %database, %error, "closing a connection"),
        }
        result
    }

    /// Works like [`Self::writing`] for user statements that start from `base`, which see only the commits that the
    /// database shows.
    pub(crate) fn writing_at<T>(
        &self,
        turn: &WriteTurn,
        base: &CommitHash,
        work: impl FnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.writing(turn, |connection| {
            connection.limit_to(self.scope(turn.database(), base));
            let result = work(connection);
            connection.limit_to(None);
            result
        })
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

    /// Opens a connection to another file of the engine, under a temporary name.
    pub(crate) fn open_file(&self, path: &std::path::Path, purpose: ConnectionUse<'_>) -> rusqlite::Result<Connection> {
        Connection::open(path, purpose, &self.guard)
    }

    fn open_connection(&self, database: DatabaseId, purpose: ConnectionUse<'_>) -> Result<Connection, EngineError> {
        let path = self.files.path(database);
        self.check_format(database)?;
        self.open_file(&path, purpose).map_err(|error| {
            if !self.files.exists(&path) {
                return missing(database);
            }
            match purpose {
                ConnectionUse::Read(commit) => errors::fault_at("open a database", commit, error),
                ConnectionUse::History | ConnectionUse::Write => errors::fault("open a database", error),
            }
        })
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

impl Engine for DoltliteEngine {
    fn create(&self, database: DatabaseId, author: &Signature, message: &str) -> Result<CommitHash, EngineError> {
        commits::create(self, database, author, message)
    }

    fn copy(&self, from: DatabaseId, to: DatabaseId) -> Result<(), EngineError> {
        commits::copy(self, from, to)
    }

    fn copy_later(&self, from: DatabaseId, to: DatabaseId) -> Result<bool, EngineError> {
        self.check_format(from)?;
        let turn = self.queues.enter(to);
        self.evict(to);
        let is_put_off = self.put_off.put_off(&self.files, from, to)?;
        drop(turn);
        if !is_put_off {
            self.copy(from, to)?;
        }
        Ok(is_put_off)
    }

    fn is_put_off(&self, database: DatabaseId) -> bool {
        self.files.is_put_off(database)
    }

    fn make_copy(&self, database: DatabaseId) -> Result<(), EngineError> {
        if self.files.is_put_off(database) { crate::collect::make_copy(self, database) } else { Ok(()) }
    }

    fn outlived_sources(&self) -> Result<Vec<DatabaseId>, EngineError> {
        self.files.outlived_sources().map_err(|error| io_fault("list the copies that are put off", error))
    }

    fn keep_in_copies(&self, kept: Arc<dyn KeptCommits>) {
        self.put_off.keep(kept);
    }

    fn remove(&self, database: DatabaseId) -> Result<(), EngineError> {
        let turn = self.queues.enter(database);
        self.evict(database);
        let removed = self.put_off.remove(&self.files, database).map_err(|error| io_fault("remove a database", error));
        // A connection that was opened during the removal must not return to the pool.
        self.evict(database);
        drop(turn);
        removed
    }

    fn collect(&self, database: DatabaseId, kept: &mut dyn KeptHeads) -> Result<Collected, EngineError> {
        crate::collect::collect(self, database, kept)
    }

    fn list(&self) -> Result<Vec<DatabaseId>, EngineError> {
        self.files.list().map_err(|error| io_fault("list the databases", error))
    }

    fn is_empty(&self) -> Result<bool, EngineError> {
        self.files.is_empty().map_err(|error| io_fault("look for databases", error))
    }

    fn size_bytes(&self, database: DatabaseId) -> Result<u64, EngineError> {
        let path = self.files.present_path(database);
        Ok(std::fs::metadata(path).map_err(|error| io_fault("look at the size of a database", error))?.len())
    }

    fn newest_format(&self) -> u32 {
        NEWEST_FORMAT
    }

    fn format(&self, database: DatabaseId) -> Result<u32, EngineError> {
        self.formats.format(database, &self.files.present_path(database))
    }

    fn check_formats(&self, recorded: Arc<dyn RecordedFormats>) {
        self.formats.look_up_in(recorded);
    }

    fn commit(&self, database: DatabaseId, hash: &CommitHash) -> Result<Option<Commit>, EngineError> {
        commits::commit(self, database, hash)
    }

    fn is_ancestor(
        &self,
        database: DatabaseId,
        ancestor: &CommitHash,
        descendant: &CommitHash,
    ) -> Result<bool, EngineError> {
        commits::is_ancestor(self, database, ancestor, descendant)
    }

    fn reached(
        &self,
        database: DatabaseId,
        heads: &[CommitHash],
        commits: &[CommitHash],
    ) -> Result<Vec<bool>, EngineError> {
        // In most cases all parents are cached, and no connection is needed.
        let known = self.ancestry.reached(database, heads, commits, &mut |_| Err(()));
        if let Ok(reached) = known {
            return Ok(reached);
        }
        self.reading_history(database, |connection| {
            let mut parents = |at: &CommitHash| parents_of(connection.raw(), at);
            let found = self.ancestry.reached(database, heads, commits, &mut parents);
            found.map_err(|error| errors::fault("look for commits", error))
        })
    }

    fn reached_with_prefix(
        &self,
        database: DatabaseId,
        heads: &[CommitHash],
        prefix: &CommitPrefix,
        at_most: usize,
        timeout: Duration,
    ) -> Result<Option<Vec<CommitHash>>, EngineError> {
        let until = Instant::now() + timeout;
        self.reading_history(database, |connection| {
            let mut parents = |at: &CommitHash| parents_of(connection.raw(), at);
            let found = self.ancestry.with_prefix(database, heads, prefix, at_most, until, &mut parents);
            found.map_err(|error| errors::fault("look for a commit", error))
        })
    }

    fn ahead_behind(
        &self,
        database: DatabaseId,
        base: &CommitHash,
        heads: &[CommitHash],
        at_most: usize,
        timeout: Duration,
    ) -> Result<Vec<Option<(usize, usize)>>, EngineError> {
        let until = Instant::now() + timeout;
        self.reading_history(database, |connection| {
            let mut parents = |at: &CommitHash| parents_of(connection.raw(), at);
            let counted = self.ancestry.ahead_behind(database, base, heads, at_most, until, &mut parents);
            counted.map_err(|error| errors::fault("count commits", error))
        })
    }

    fn limit_history(&self, reachability: Arc<dyn Reachability>) {
        self.reachability.get_or_init(|| reachability);
    }

    fn merge_base(
        &self,
        database: DatabaseId,
        a: &CommitHash,
        b: &CommitHash,
    ) -> Result<Option<CommitHash>, EngineError> {
        commits::merge_base(self, database, a, b)
    }

    fn log(&self, database: DatabaseId, at: &LogPosition, limit: usize) -> Result<Vec<LogEntry>, EngineError> {
        commits::log(self, database, at, limit)
    }

    fn fetch(&self, into: DatabaseId, from: DatabaseId, commit: &CommitHash) -> Result<(), EngineError> {
        crate::fetch::fetch(self, into, from, commit)
    }

    fn chunks(
        &self,
        database: DatabaseId,
        hashes: &[ChunkHash],
        at_most: usize,
    ) -> Result<Vec<Option<Chunk>>, EngineError> {
        chunks::read(self, database, hashes, at_most)
    }

    fn held_chunks(&self, database: DatabaseId, hashes: &[ChunkHash]) -> Result<Vec<Option<HeldChunk>>, EngineError> {
        chunks::held(self, database, hashes)
    }

    fn examine_push(
        &self,
        database: DatabaseId,
        pushed: &File,
        tips: &[CommitHash],
    ) -> Result<PushedHistory, EngineError> {
        chunks::examine(self, database, pushed, tips)
    }

    fn take_over_push(&self, database: DatabaseId, pushed: &File, tips: &[CommitHash]) -> Result<(), EngineError> {
        chunks::take_over(self, database, pushed, tips)
    }

    fn check_commit(
        &self,
        database: DatabaseId,
        commit: &CommitHash,
        trusted: Option<&CommitHash>,
        timeout: Duration,
    ) -> Result<Vec<String>, EngineError> {
        crate::check::check(self, database, commit, trusted, timeout)
    }

    fn read(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        query: &ReadQuery<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<ReadReport, EngineError> {
        if let Some(long) = &self.options.long
            && long.turns.begin(shape::shape(database, query.sql), &query.canceled).is_break()
        {
            return Err(EngineError::Busy);
        }
        self.reading_guarded(database, at, |connection| crate::read::read(self, connection, query, sink))
    }

    fn scan(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        scan: &TableScan<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Duration, EngineError> {
        self.reading(database, at, |connection| crate::scan::scan(self, connection, at, scan, sink))
    }

    fn rows(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        wanted: &Selection<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Selected, EngineError> {
        self.reading_guarded(database, at, |connection| crate::browse::rows(self, connection, wanted, sink))
    }

    fn count(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        table: &str,
        tests: &[RowTest],
        timeout: Duration,
    ) -> Result<u64, EngineError> {
        self.reading_guarded(database, at, |connection| crate::browse::count(self, connection, table, tests, timeout))
    }

    fn column_values(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        query: &ColumnQuery<'_>,
    ) -> Result<ColumnValues, EngineError> {
        self.reading_guarded(database, at, |connection| crate::browse::column_values(self, connection, query))
    }

    fn write(&self, database: DatabaseId, job: &WriteJob<'_>) -> Result<Written, EngineError> {
        let turn = self.queues.enter(database);
        crate::write::write(self, &turn, job)
    }

    fn write_batch(
        &self,
        database: DatabaseId,
        base: &CommitHash,
        writes: &[BatchedWrite<'_>],
        at_most: Duration,
    ) -> Vec<Result<Written, EngineError>> {
        let turn = self.queues.enter(database);
        write_one_by_one(base, writes, at_most, |job| crate::write::write(self, &turn, job))
    }

    fn preview_write(&self, database: DatabaseId, job: &PreviewJob<'_>) -> Result<Previewed, EngineError> {
        crate::write_preview::preview(self, database, job)
    }

    fn merge(&self, database: DatabaseId, job: &MergeJob<'_>) -> Result<MergeOutcome, EngineError> {
        let turn = self.queues.enter(database);
        crate::merge::merge(self, &turn, job)
    }

    fn conflicts(
        &self,
        database: DatabaseId,
        ours: &CommitHash,
        theirs: &CommitHash,
        table: Option<&str>,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<Conflict>, EngineError> {
        let pair = merge_preview::HeadPair { database, ours: ours.clone(), theirs: theirs.clone() };
        let table = table.map(str::to_ascii_lowercase);
        self.trials.conflicts(self, &merge_preview::ConflictQuery { pair, table, skip, limit })
    }

    fn needs_preparing(&self, database: DatabaseId) -> bool {
        self.trials.needs_preparing(self, database)
    }

    fn prepare_conflicts(
        &self,
        database: DatabaseId,
        ours: &CommitHash,
        theirs: &CommitHash,
    ) -> Result<(), EngineError> {
        self.trials.prepare(self, &merge_preview::HeadPair { database, ours: ours.clone(), theirs: theirs.clone() })
    }

    fn import(
        &self,
        database: DatabaseId,
        job: &ImportJob<'_>,
        rows: &mut dyn RowSource,
    ) -> Result<CommitHash, EngineError> {
        let turn = self.queues.enter(database);
        crate::import::import(self, &turn, job, rows)
    }

    fn run_script(
        &self,
        database: DatabaseId,
        job: &ScriptJob<'_>,
        script: &mut dyn std::io::Read,
    ) -> Result<CommitHash, EngineError> {
        let turn = self.queues.enter(database);
        crate::script::run_script(self, &turn, job, script)
    }

    fn changed_tables(
        &self,
        database: DatabaseId,
        from: &CommitHash,
        to: &CommitHash,
    ) -> Result<Vec<TableChange>, EngineError> {
        crate::diff::changed_tables(&Comparison::of_commits(self, database, from, to))
    }

    fn changed_rows(
        &self,
        database: DatabaseId,
        from: &CommitHash,
        to: &CommitHash,
        table: &str,
        page: &RowPage,
    ) -> Result<ChangedRows, EngineError> {
        crate::diff::changed_rows(&Comparison::of_commits(self, database, from, to), table, page)
    }

    fn row_history(
        &self,
        database: DatabaseId,
        at: &HistoryPosition,
        wanted: &HistoryQuery<'_>,
    ) -> Result<HistoryPage, EngineError> {
        crate::row_history::row_history(self, database, at, wanted)
    }

    fn tables(&self, database: DatabaseId, at: &CommitHash) -> Result<Vec<TableSchema>, EngineError> {
        let timeout = self.options.diff_timeout;
        let mut tables = self.reading_within(timeout, database, at, "read the definitions", |connection| {
            crate::schema::tables(connection)
        })?;
        if let Some(scope) = self.scope(database, at) {
            crate::schema::hide_columns(&mut tables, |sql| scope.unknown_within(sql).is_some());
        }
        Ok(tables)
    }

    fn objects(&self, database: DatabaseId, at: &CommitHash) -> Result<Vec<SchemaObject>, EngineError> {
        self.reading(database, at, |connection| {
            crate::schema::objects(connection).map_err(|error| errors::fault_at("read the definitions", at, error))
        })
    }

    fn export_sqlite(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        into: &File,
        job: &SqliteExport,
    ) -> Result<(), EngineError> {
        let temporary = self.files.temporary();
        self.reading(database, at, |connection| {
            crate::sqlite_export::write(self, connection, at, temporary.path(), job)
        })?;
        crate::sqlite_export::hand_over(temporary.path(), into)
    }

    fn scratch_folder(&self) -> PathBuf {
        self.files.temporary_folder()
    }

    fn verify(&self, database: DatabaseId, heads: &[CommitHash]) -> Result<Vec<String>, EngineError> {
        crate::verify::verify(self, database, heads)
    }
}
