//! Connections: opened without ever making a file, guarded, with small caches.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_domain::ports::{CancellationToken, EngineError, SessionRequest, SqlPower};
use branchyard_domain::values::CommitHash;
use rusqlite::{OpenFlags, Params, Row};

use crate::guard::{self, Entered, Guard, GuardMode, StatementEffects};
use crate::memory::{self, Allocated, MemoryBudget};
use crate::reach::Scope;
use crate::sql::errors;
use crate::watchdog::{DeadlineWatch, Follower, Watchdog};

/// How many instructions run between two looks at the clock.
const PROGRESS_EVERY: i32 = 1000;

/// A guarded connection.
pub(crate) struct Connection {
    raw: rusqlite::Connection,
    guard: Guard,
    /// What statements of ours may take while the time is limited.
    memory: Mutex<Option<Arc<MemoryBudget>>>,
    scope: Mutex<Option<Arc<Scope>>>,
    held: AtomicI64,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionUse<'a> {
    /// Reads, fixed to a commit.
    Read(&'a CommitHash),
    /// Questions of ours about any commits.
    History,
    /// Writes, on the reserved branch.
    Write,
}

impl Connection {
    /// Opens an existing file.
    pub(crate) fn open(
        path: &Path,
        purpose: ConnectionUse<'_>,
        modules: &Arc<HashSet<String>>,
    ) -> rusqlite::Result<Self> {
        let mut name = path.as_os_str().to_owned();
        if let ConnectionUse::Read(commit) = purpose {
            name.push("@");
            name.push(commit.as_str());
        }
        // Without CREATE: a name that does not exist must not become a file.
        let access = match purpose {
            ConnectionUse::Read(_) | ConnectionUse::History => OpenFlags::SQLITE_OPEN_READ_ONLY,
            ConnectionUse::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
        };
        let raw = rusqlite::Connection::open_with_flags(name, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        raw.busy_handler(Some(wait_a_little))?;
        // The engine's own default is 64 MB for each connection.
        let settings = match purpose {
            ConnectionUse::Read(_) | ConnectionUse::History => {
                "PRAGMA cache_size = -4000; PRAGMA temp_store = memory; PRAGMA query_only = on;"
            }
            ConnectionUse::Write => "PRAGMA cache_size = -16000; PRAGMA temp_store = memory; PRAGMA foreign_keys = on;",
        };
        raw.execute_batch(settings)?;
        let guard = Guard::install(&raw, Arc::clone(modules))?;
        Ok(Self { raw, guard, memory: Mutex::default(), scope: Mutex::default(), held: AtomicI64::new(0) })
    }

    /// Opens a file in SQLite's own format, which nobody else has open, for reading.
    pub(crate) fn open_sqlite(path: &Path, modules: &Arc<HashSet<String>>) -> rusqlite::Result<Self> {
        // Immutable: a journal beside it is not looked for, nor would one be applied.
        let uri = format!("file:{}?doltlite_engine=sqlite&mode=ro&immutable=1", in_uri(path));
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let raw = rusqlite::Connection::open_with_flags(uri, flags)?;
        raw.execute_batch(
            "PRAGMA cache_size = -16000; PRAGMA temp_store = memory; PRAGMA query_only = on; PRAGMA cell_size_check = on;
             PRAGMA mmap_size = 0;",
        )?;
        let guard = Guard::install(&raw, Arc::clone(modules))?;
        Ok(Self { raw, guard, memory: Mutex::default(), scope: Mutex::default(), held: AtomicI64::new(0) })
    }

    /// Opens an existing file for a session: on a branch, or on the default branch.
    pub(crate) fn open_session(
        path: &Path,
        request: &SessionRequest,
        cache_kib: usize,
        modules: &Arc<HashSet<String>>,
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
        // Before the guard takes the function away.
        raw.query_row(
            "SELECT dolt_config('user.name', ?), dolt_config('user.email', ?)",
            [&request.caller.name, &request.caller.email],
            |_| Ok(()),
        )?;
        let guard = Guard::install_for_session(&raw, Arc::clone(modules))?;
        Ok(Self { raw, guard, memory: Mutex::default(), scope: Mutex::default(), held: AtomicI64::new(0) })
    }

    /// Records the memory that this connection allocated on this thread since `before`, and returns whether the connection can be reused. After a
    /// refused allocation it cannot: the engine may have lost part of its list of branches, and would treat our branch as deleted.
    pub(crate) fn is_sound_since(&self, before: Allocated) -> bool {
        self.held.fetch_add(before.grown(), Ordering::Relaxed);
        !before.was_refused()
    }

    /// Bytes it holds, its caches above all, as far as it was weighed.
    pub(crate) fn held(&self) -> i64 {
        self.held.load(Ordering::Relaxed)
    }

    /// The connection itself, for statements of ours.
    pub(crate) fn raw(&self) -> &rusqlite::Connection {
        &self.raw
    }

    /// Runs a stranger's statements until the result is dropped.
    pub(crate) fn enter(&self, mode: GuardMode) -> Entered<'_> {
        self.guard.enter(mode, self.scope().clone())
    }

    /// Limits users' statements to the commits of `scope`; `None` lifts the limit.
    pub(crate) fn limit_to(&self, scope: Option<Arc<Scope>>) {
        *self.scope() = scope;
    }

    /// Whether statements are limited to some commits.
    pub(crate) fn is_limited(&self) -> bool {
        self.scope().is_some()
    }

    /// Whether what ran since the time limit began depends on what else the database shows.
    pub(crate) fn depends_on_refs(&self) -> bool {
        self.scope().as_ref().is_some_and(|scope| scope.was_asked())
    }

    /// Whether tables and functions of the engine were replaced by ours: the connection is of no use for statements of ours any more.
    pub(crate) fn is_wrapped(&self) -> bool {
        self.guard.is_wrapped()
    }

    /// Prepares a user's statement; again, when the guard wants tables or functions of the engine wrapped first.
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

    /// Why a statement could not be prepared, without the columns of a commit that counts as absent.
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

    /// The first commit that a view names which the statement prepared last reads through, and that counts as absent. The engine takes the columns of
    /// some tables from the commit that is named, so that a view would still show those of a commit that was hidden since.
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
        self.scope.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what runs here when the time of another connection is over, until the result is dropped.
    pub(crate) fn follow(&self, other: &Follower) -> rusqlite::Result<DeadlineWatch> {
        let watch = other.watch(self.raw.get_interrupt_handle());
        let deadline = Arc::clone(watch.deadline());
        self.raw.progress_handler(PROGRESS_EVERY, Some(move || deadline.ends()))?;
        Ok(watch)
    }

    /// What the guard saw since it was asked last.
    pub(crate) fn take_seen(&self) -> StatementEffects {
        self.guard.take_seen()
    }

    /// Bounds what runs from now until the result is dropped.
    pub(crate) fn limit_time(&self, watchdog: &Watchdog, timeout: Duration) -> rusqlite::Result<TimeLimit<'_>> {
        self.limit_time_or(watchdog, timeout, CancellationToken::default())
    }

    /// The same; `canceled` ends it early.
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
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = memory;
    }

    /// Runs a statement of ours, or a step of one, that may compute what users stored in a schema (generated columns, checks, triggers, views): while
    /// the time is limited, its memory is as well. As [`MemoryBudget::spend`], never around code that takes an allocation for granted.
    pub(crate) fn spend<T>(&self, work: impl FnOnce() -> T) -> T {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match memory {
            Some(memory) => memory.spend(work),
            None => work(),
        }
    }

    /// [`Self::spend`] for a statement whose one row `read` takes.
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

    /// Ends whatever transaction is open.
    pub(crate) fn roll_back(&self) -> rusqlite::Result<()> {
        if self.raw.is_autocommit() { Ok(()) } else { self.raw.execute_batch("ROLLBACK") }
    }
}

/// A path as it stands in a URI.
fn in_uri(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let escaped = |byte: &u8| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    path.as_os_str().as_encoded_bytes().iter().map(escaped).collect()
}

/// A time limit in force.
pub(crate) struct TimeLimit<'a> {
    connection: &'a Connection,
    watch: DeadlineWatch,
}

impl TimeLimit<'_> {
    /// Whether time ran out.
    pub(crate) fn expired(&self) -> bool {
        self.watch.deadline().expired()
    }

    /// Why it was ended before its end, if it was. After a failure only: a lack of memory may have passed.
    pub(crate) fn ended(&self) -> Option<EngineError> {
        self.watch.deadline().ended().or_else(|| self.memory().lacked().then_some(EngineError::Busy))
    }

    /// What runs may take.
    pub(crate) fn memory(&self) -> &MemoryBudget {
        self.watch.memory()
    }

    /// Runs `work`; where it fails because other statements hold the memory there is, waits for them and runs it again, unless `is_final` says
    /// that it cannot be repeated. Waits for [`memory::WAIT`] in all.
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

    /// The time that is left.
    pub(crate) fn remaining(&self) -> Duration {
        self.watch.deadline().remaining()
    }

    /// Runs something that does not count.
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
            tracing::error!(%error, "a progress handler could not be removed");
        }
    }
}

/// Waits for a lock in very short sleeps: `busy_timeout` backs off so far that readers stall for seconds next to a writer.
fn wait_a_little(attempt: i32) -> bool {
    thread::sleep(Duration::from_micros(if attempt < 10 { 50 } else { 250 }));
    // About ten seconds; nothing here holds a lock for longer than one commit takes.
    attempt < 40_000
}
