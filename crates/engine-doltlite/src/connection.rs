//! Guarded connections with small caches, opened without ever creating a file.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_domain::ports::{CancellationToken, EngineError, SessionRequest, SqlPower};
use branchyard_domain::values::CommitHash;
use parking_lot::{Mutex, MutexGuard};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::{OpenFlags, Params, Row};

use crate::guard::{self, Entered, Guard, GuardMode, GuardSettings, StatementEffects};
use crate::idle_connections::Idle;
use crate::memory::{self, Allocated, MemoryBudget};
use crate::queue::WriteTurn;
use crate::reach::Scope;
use crate::sql::errors;
use crate::watchdog::{DeadlineWatch, Follower, Watchdog};

/// Number of virtual machine instructions between two checks of the deadline.
const PROGRESS_EVERY: i32 = 1000;

/// A guarded connection.
pub(crate) struct Connection {
    raw: rusqlite::Connection,
    guard: Guard,
    /// Memory budget of internal statements while a time limit is in force.
    memory: Mutex<Option<Arc<MemoryBudget>>>,
    scope: Mutex<Option<Arc<Scope>>>,
    held: AtomicI64,
    /// The write turn in which this connection committed last, and the commit, which the file is at as long as that turn
    /// lasts. Unset while something else may be in the file.
    committed: Mutex<Option<(u64, CommitHash)>>,
}

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionUse<'a> {
    /// Reads at one commit.
    Read(&'a CommitHash),
    /// Internal queries about any commits.
    History,
    /// Writes on the reserved branch.
    Write,
}

impl Idle for Connection {
    /// Returns the memory in bytes that the connection holds, mostly caches, as far as it was measured.
    fn held(&self) -> i64 {
        self.held.load(Ordering::Relaxed)
    }
}

impl Connection {
    fn new(raw: rusqlite::Connection, guard: Guard) -> Self {
        Self {
            raw,
            guard,
            memory: Mutex::default(),
            scope: Mutex::default(),
            held: AtomicI64::new(0),
            committed: Mutex::default(),
        }
    }

    /// Opens an existing file.
    pub(crate) fn open(path: &Path, purpose: ConnectionUse<'_>, guard: &Arc<GuardSettings>) -> rusqlite::Result<Self> {
        let mut name = path.as_os_str().to_owned();
        if let ConnectionUse::Read(commit) = purpose {
            name.push("@");
            name.push(commit.as_str());
        }
        // Opened without CREATE: a path that does not exist must not become a file.
        let access = match purpose {
            ConnectionUse::Read(_) | ConnectionUse::History => OpenFlags::SQLITE_OPEN_READ_ONLY,
            ConnectionUse::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
        };
        let raw = rusqlite::Connection::open_with_flags(name, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        raw.busy_handler(Some(wait_a_little))?;
        // The engine's default cache is 64 MB for each connection.
        let settings = match purpose {
            ConnectionUse::Read(_) | ConnectionUse::History => {
                "PRAGMA cache_size = -4000; PRAGMA temp_store = memory; PRAGMA query_only = on;"
            }
            ConnectionUse::Write => "PRAGMA cache_size = -16000; PRAGMA temp_store = memory; PRAGMA foreign_keys = on;",
        };
        raw.execute_batch(settings)?;
        let guard = Guard::install(&raw, Arc::clone(guard))?;
        Ok(Self::new(raw, guard))
    }

    /// Opens a file in SQLite's own format for reading. No other connection may have the file open.
    pub(crate) fn open_sqlite(path: &Path, guard: &Arc<GuardSettings>) -> rusqlite::Result<Self> {
        // Immutable: SQLite neither looks for a journal beside the file nor applies one.
        let uri = format!("file:{}?doltlite_engine=sqlite&mode=ro&immutable=1", in_uri(path));
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let raw = rusqlite::Connection::open_with_flags(uri, flags)?;
        raw.execute_batch(
            "PRAGMA cache_size = -16000; PRAGMA temp_store = memory; PRAGMA query_only = on; PRAGMA cell_size_check = on;
             PRAGMA mmap_size = 0;",
        )?;
        let guard = Guard::install(&raw, Arc::clone(guard))?;
        Ok(Self::new(raw, guard))
    }

    /// Opens an empty file in SQLite's own format for writing. No other connection may have the file open. There is no journal: a
    /// file that was not committed is of no use.
    pub(crate) fn create_sqlite(path: &Path, guard: &Arc<GuardSettings>) -> rusqlite::Result<Self> {
        let uri = format!("file:{}?doltlite_engine=sqlite&nolock=1", in_uri(path));
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let raw = rusqlite::Connection::open_with_flags(uri, flags)?;
        raw.execute_batch(
            "PRAGMA page_size = 4096; PRAGMA journal_mode = off; PRAGMA synchronous = off; PRAGMA cache_size = -16000;
             PRAGMA temp_store = memory; PRAGMA foreign_keys = off; PRAGMA ignore_check_constraints = on;",
        )?;
        let guard = Guard::install(&raw, Arc::clone(guard))?;
        Ok(Self::new(raw, guard))
    }

    /// Opens an empty database in memory.
    pub(crate) fn open_scratch(guard: &Arc<GuardSettings>) -> rusqlite::Result<Self> {
        let raw = rusqlite::Connection::open_in_memory()?;
        raw.execute_batch("PRAGMA temp_store = memory;")?;
        let guard = Guard::install(&raw, Arc::clone(guard))?;
        Ok(Self::new(raw, guard))
    }

    /// Opens an existing file for a session, on the requested branch or on the default branch.
    pub(crate) fn open_session(
        path: &Path,
        request: &SessionRequest,
        cache_kib: usize,
        guard: &Arc<GuardSettings>,
    ) -> rusqlite::Result<Self> {
        let mut name = path.as_os_str().to_owned();
        if let Some(branch) = &request.branch {
            name.push("@");
            name.push(branch);
        }
        let reads = request.power == SqlPower::Read;
        let access = if reads { OpenFlags::SQLITE_OPEN_READ_ONLY } else { OpenFlags::SQLITE_OPEN_READ_WRITE };
        let raw = rusqlite::Connection::open_with_flags(name, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        raw.busy_handler(Some(wait_a_little))?;
        raw.execute_batch(&format!(
            "PRAGMA cache_size = -{cache_kib}; PRAGMA temp_store = memory; PRAGMA foreign_keys = {}; PRAGMA query_only = {reads};",
            request.foreign_keys
        ))?;
        // Must run before the guard removes the function.
        raw.query_row(
            "SELECT dolt_config('user.name', ?), dolt_config('user.email', ?)",
            [&request.caller.name, &request.caller.email],
            |_| Ok(()),
        )?;
        let guard = Guard::install_for_session(&raw, Arc::clone(guard))?;
        Ok(Self::new(raw, guard))
    }

    /// Records the memory that this connection allocated on this thread since `before`. Returns `true` if the
    /// connection can be reused. After a refused allocation it cannot: the engine may have lost part of its list of
    /// branches, and would treat the reserved branch as deleted.
    pub(crate) fn is_sound_since(&self, before: Allocated) -> bool {
        self.held.fetch_add(before.grown(), Ordering::Relaxed);
        !before.was_refused()
    }

    /// Records that the file is at a commit, which this connection made in a write turn, with no other changes.
    pub(crate) fn note_committed(&self, turn: &WriteTurn, commit: &CommitHash) {
        *self.committed.lock() = Some((turn.number(), commit.clone()));
    }

    /// Returns `true` if the file is known to be at a commit with no other changes. The caller is about to change it, so it
    /// is not known any longer afterwards.
    pub(crate) fn take_committed(&self, turn: &WriteTurn, commit: &CommitHash) -> bool {
        self.committed.lock().take().is_some_and(|(in_turn, at)| in_turn == turn.number() && at == *commit)
    }

    /// Records that the file may be at any commit.
    pub(crate) fn forget_committed(&self) {
        *self.committed.lock() = None;
    }

    /// Returns the underlying connection, for internal statements.
    pub(crate) fn raw(&self) -> &rusqlite::Connection {
        &self.raw
    }

    /// Switches the guard to user statements until the result is dropped.
    pub(crate) fn enter(&self, mode: GuardMode) -> Entered<'_> {
        self.guard.enter(mode, self.scope().clone())
    }

    /// Limits user statements to the commits of `scope`; `None` lifts the limit.
    pub(crate) fn limit_to(&self, scope: Option<Arc<Scope>>) {
        *self.scope() = scope;
    }

    /// Returns `true` if user statements are limited to a set of commits.
    pub(crate) fn is_limited(&self) -> bool {
        self.scope().is_some()
    }

    /// Returns `true` if the result of the statements since the time limit began depends on the refs of the database.
    pub(crate) fn depends_on_refs(&self) -> bool {
        self.scope().as_ref().is_some_and(|scope| scope.was_asked())
    }

    /// Returns `true` if tables or functions of the engine were replaced by wrappers. Such a connection cannot run
    /// internal statements any more.
    pub(crate) fn is_wrapped(&self) -> bool {
        self.guard.is_wrapped()
    }

    /// Prepares a user's statement. If the guard asks for tables or functions of the engine to be wrapped, wraps them
    /// and prepares the statement again.
    pub(crate) fn preparing<T>(
        &self,
        sql: &str,
        mut prepare: impl FnMut() -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        loop {
            let error = match prepare() {
                Err(error) => error,
                Ok(prepared) => {
                    return match self.hidden_behind_views()? {
                        Some(commit) => Err(guard::no_such_commit(&commit)),
                        None => Ok(prepared),
                    };
                }
            };
            let wanted = self.guard.take_wanted();
            if wanted.is_empty() {
                return Err(self.without_columns(sql, error));
            }
            let scope = self.scope().clone();
            for name in wanted {
                guard::wrap(&self.raw, scope.as_deref(), &name)?;
                self.guard.wrapped(name);
            }
        }
    }

    /// Returns the error to report for a statement that could not be prepared. An error about a column is replaced if
    /// the statement names a hidden commit, because the error would reveal the columns of that commit.
    fn without_columns(&self, sql: &str, error: rusqlite::Error) -> rusqlite::Error {
        if !errors::parts(&error).1.contains("column") {
            return error;
        }
        let named = self.scope().as_ref().and_then(|scope| scope.unknown_within(sql));
        match named.map_or_else(|| self.hidden_behind_views(), |commit| Ok(Some(commit))) {
            Ok(Some(commit)) => guard::no_such_commit(&commit),
            Ok(None) => error,
            Err(fault) => fault,
        }
    }

    /// Returns the first hidden commit that is named by a view which the last prepared statement reads through. The
    /// engine takes the columns of some tables from the named commit, so a view would otherwise still show the columns
    /// of a commit that was hidden later.
    fn hidden_behind_views(&self) -> rusqlite::Result<Option<CommitHash>> {
        let Some(scope) = self.scope().clone() else { return Ok(None) };
        let views = self.guard.views();
        if views.as_ref().is_some_and(BTreeSet::is_empty) {
            return Ok(None);
        }
        let definitions: Vec<(String, String)> = self.guard.trusted(|| {
            let mut statement = self
                .raw
                .prepare("SELECT lower(name), coalesce(sql, '') FROM main.sqlite_schema WHERE type = 'view'")?;
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()
        })?;
        let is_used = |name: &String| views.as_ref().is_none_or(|views| views.contains(name));
        let mut used = definitions.iter().filter(|(name, _)| is_used(name));
        Ok(used.find_map(|(_, sql)| scope.unknown_within(sql)))
    }

    fn scope(&self) -> MutexGuard<'_, Option<Arc<Scope>>> {
        self.scope.lock()
    }

    /// Applies the deadline of another connection to this one, until the result is dropped.
    pub(crate) fn follow(&self, other: &Follower) -> rusqlite::Result<DeadlineWatch> {
        let watch = other.watch(self.raw.get_interrupt_handle());
        let deadline = Arc::clone(watch.deadline());
        self.raw.progress_handler(PROGRESS_EVERY, Some(move || deadline.ends()))?;
        Ok(watch)
    }

    /// Takes the effects that the guard recorded since the last call.
    pub(crate) fn take_seen(&self) -> StatementEffects {
        self.guard.take_seen()
    }

    /// Limits the time and memory of what runs on this connection until the result is dropped.
    pub(crate) fn limit_time(&self, watchdog: &Watchdog, timeout: Duration) -> rusqlite::Result<TimeLimit<'_>> {
        self.limit_time_or(watchdog, timeout, CancellationToken::default())
    }

    /// Works like [`Self::limit_time`]; `canceled` ends the work early.
    pub(crate) fn limit_time_or(
        &self,
        watchdog: &Watchdog,
        timeout: Duration,
        canceled: CancellationToken,
    ) -> rusqlite::Result<TimeLimit<'_>> {
        let watch = watchdog.watch(self.raw.get_interrupt_handle(), timeout, canceled);
        let deadline = Arc::clone(watch.deadline());
        self.raw.progress_handler(PROGRESS_EVERY, Some(move || deadline.ends()))?;
        self.limit_memory(Some(Arc::clone(watch.memory())));
        if let Some(scope) = &*self.scope() {
            scope.begin(watch.follower());
        }
        Ok(TimeLimit { connection: self, watch })
    }

    fn limit_memory(&self, memory: Option<Arc<MemoryBudget>>) {
        *self.memory.lock() = memory;
    }

    /// Runs an internal statement, or a step of one, that may evaluate expressions stored in a schema (generated
    /// columns, checks, triggers, views). While a time limit is in force, the memory of `work` is limited as well. As
    /// with [`MemoryBudget::spend`], `work` must not contain code that cannot handle a failed allocation.
    pub(crate) fn spend<T>(&self, work: impl FnOnce() -> T) -> T {
        let memory = self.memory.lock().clone();
        match memory {
            Some(memory) => memory.spend(work),
            None => work(),
        }
    }

    /// Runs [`Self::spend`] for a statement that returns one row, and passes the row to `read`.
    pub(crate) fn spend_on_row<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut statement = self.spend(|| self.raw.prepare_cached(sql))?;
        let mut rows = statement.query(values)?;
        let row = self.spend(|| rows.next())?;
        read(row.ok_or(rusqlite::Error::QueryReturnedNoRows)?)
    }

    /// Begins a read transaction.
    pub(crate) fn begin_read(&self) -> rusqlite::Result<()> {
        self.execute_cached("BEGIN")?;
        // The engine notices what other connections appended to the file only when a statement reads something.
        self.raw.prepare_cached("SELECT 1 FROM sqlite_schema LIMIT 1")?.exists([]).map(drop)
    }

    /// Executes a statement of ours that recurs, and keeps it prepared: parsing takes longer than running it.
    pub(crate) fn execute_cached(&self, sql: &'static str) -> rusqlite::Result<()> {
        self.raw.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// Rolls back the open transaction, if there is one.
    pub(crate) fn roll_back(&self) -> rusqlite::Result<()> {
        if self.raw.is_autocommit() { Ok(()) } else { self.execute_cached("ROLLBACK") }
    }
}

/// Percent-encodes a path for a URI.
fn in_uri(path: &Path) -> String {
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    percent_encode(path.as_os_str().as_encoded_bytes(), ESCAPED).to_string()
}

/// A time limit in force.
pub(crate) struct TimeLimit<'a> {
    connection: &'a Connection,
    watch: DeadlineWatch,
}

impl TimeLimit<'_> {
    /// Returns `true` if the time ran out.
    pub(crate) fn expired(&self) -> bool {
        self.watch.deadline().expired()
    }

    /// Returns the reason if the work was ended early. Call this only after a failure: a statement that lacked memory
    /// may have succeeded later.
    pub(crate) fn ended(&self) -> Option<EngineError> {
        self.watch.deadline().ended().or_else(|| self.memory().lacked().then_some(EngineError::Busy))
    }

    /// Returns the memory budget of the work.
    pub(crate) fn memory(&self) -> &MemoryBudget {
        self.watch.memory()
    }

    /// Runs `work`. If it fails because other statements hold the memory, waits for them and runs it again, unless
    /// `is_final` returns `true` because `work` cannot be repeated. Waits for at most [`memory::WAIT`] in all.
    pub(crate) fn with_room<T, E>(
        &self,
        mut work: impl FnMut(&MemoryBudget) -> Result<T, E>,
        is_final: impl Fn() -> bool,
    ) -> Result<T, E> {
        let began = Instant::now();
        loop {
            let ended = work(self.memory());
            if ended.is_ok() || !self.memory().lacked() || is_final() || self.expired() {
                return ended;
            }
            let left = memory::WAIT.saturating_sub(began.elapsed());
            if !self.memory().wait_for_room(left) {
                self.memory().give_up();
                return ended;
            }
        }
    }

    /// Returns the remaining time.
    pub(crate) fn remaining(&self) -> Duration {
        self.watch.deadline().remaining()
    }

    /// Runs `wait` with the clock stopped.
    pub(crate) fn stopped<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.watch.deadline().stopped(wait)
    }
}

impl Drop for TimeLimit<'_> {
    fn drop(&mut self) {
        self.connection.limit_memory(None);
        if let Some(scope) = &*self.connection.scope() {
            scope.end();
        }
        if let Err(error) = self.connection.raw.progress_handler(0, None::<fn() -> bool>) {
            tracing::error!(%error, "cannot remove a progress handler");
        }
    }
}

/// Waits for a lock in very short sleeps. The backoff of `busy_timeout` grows so long that readers stall for seconds
/// next to a writer.
pub(crate) fn wait_a_little(attempt: i32) -> bool {
    thread::sleep(Duration::from_micros(if attempt < 10 { 50 } else { 250 }));
    // About ten seconds in all. No holder keeps a lock for longer than one commit takes.
    attempt < 40_000
}
