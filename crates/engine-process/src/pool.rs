//! The workers of an engine: blank ones, idle ones that have a database, and those in use.

#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::DatabaseId;
use branchyard_engine_doltlite::{Files, io_fault, lock_path, missing};
use parking_lot::{Condvar, Mutex};

use crate::launcher::Launcher;
use crate::messages::{Bind, Setup};
use crate::process::{Access, Shared, WorkerProcess};

/// How long a client may keep a worker waiting before the worker counts as stalled.
const STALLED: Duration = Duration::from_millis(500);
/// How often idle workers are looked at.
const TIDY_EVERY: Duration = Duration::from_secs(1);
/// How often starting workers is tried again after a failure.
const RETRY: Duration = Duration::from_millis(500);

/// Numbers of workers, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerLoad {
    /// Workers without a database.
    pub blank: usize,
    /// Workers that have a database and no call.
    pub idle: usize,
    /// Workers with a call.
    pub busy: usize,
    /// Workers that were killed since the engine was opened: they did not end in time or broke the protocol.
    pub killed: u64,
}

#[derive(Debug, Default)]
struct State {
    blank: Vec<WorkerProcess>,
    idle: Vec<WorkerProcess>,
    busy: HashMap<u32, (DatabaseId, Arc<Shared>)>,
    /// Workers that have a database, with those that are about to get one.
    bound: usize,
    /// Calls that wait for a worker.
    waiting: usize,
    /// Incremented when the file of a database is replaced or removed.
    generations: HashMap<DatabaseId, u64>,
    killed: u64,
    last_error: Option<String>,
    is_closed: bool,
}

#[derive(Debug)]
pub(crate) struct Pool {
    state: Mutex<State>,
    changed: Condvar,
    settings: PoolSettings,
    opened: Instant,
}

/// Limits of a [`Pool`].
#[derive(Debug, Clone)]
pub(crate) struct PoolSettings {
    pub(crate) most: usize,
    pub(crate) blank: usize,
    pub(crate) idle: Duration,
    pub(crate) most_calls: u32,
    pub(crate) wait: Duration,
    pub(crate) setup: Setup,
}

impl Pool {
    /// Starts the thread that keeps blank workers ready, and waits for the first.
    pub(crate) fn start(launcher: Launcher, settings: PoolSettings) -> io::Result<Arc<Self>> {
        let first = WorkerProcess::set_up(launcher.launch()?, &settings.setup)?;
        let state = State { blank: vec![first], ..State::default() };
        let pool =
            Arc::new(Self { state: Mutex::new(state), changed: Condvar::new(), settings, opened: Instant::now() });
        let weak = Arc::downgrade(&pool);
        thread::Builder::new().name("sql-workers".into()).spawn(move || keep_ready(&launcher, &weak))?;
        Ok(pool)
    }

    /// Returns the numbers of workers.
    pub(crate) fn load(&self) -> WorkerLoad {
        let state = self.state.lock();
        WorkerLoad { blank: state.blank.len(), idle: state.idle.len(), busy: state.busy.len(), killed: state.killed }
    }

    /// Returns the milliseconds since the engine was opened, plus one.
    pub(crate) fn moment(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Takes a worker of a database.
    pub(crate) fn take(
        self: &Arc<Self>,
        files: &Files,
        database: DatabaseId,
        access: Access,
        limits_history: bool,
    ) -> Result<Borrowed, EngineError> {
        match self.take_idle(database, access, limits_history) {
            Some(borrowed) => Ok(borrowed),
            None => self.take_blank_for(&files.path(database), database, access, limits_history),
        }
    }

    /// Takes an idle worker of a database, if there is one. Never blocks.
    pub(crate) fn take_idle(
        self: &Arc<Self>,
        database: DatabaseId,
        access: Access,
        limits_history: bool,
    ) -> Option<Borrowed> {
        let mut state = self.state.lock();
        loop {
            // One that was bound before history was limited shows every commit.
            let at = state.idle.iter().rposition(|worker| {
                worker.database == Some((database, access)) && worker.limits_history == limits_history
            })?;
            let worker = state.idle.swap_remove(at);
            if worker.has_ended() {
                state.bound -= 1;
                continue;
            }
            return Some(self.lend(&mut state, worker, database));
        }
    }

    /// Takes a blank worker, and binds it to a file of a database.
    pub(crate) fn take_blank_for(
        self: &Arc<Self>,
        path: &Path,
        database: DatabaseId,
        access: Access,
        limits_history: bool,
    ) -> Result<Borrowed, EngineError> {
        let generation = self.state.lock().generations.get(&database).copied().unwrap_or(0);
        let files = open(path, access).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => missing(database),
            _ => io_fault("open a database", error),
        })?;
        let worker = self.take_blank()?;
        let mut borrowed = self.lend(&mut self.state.lock(), worker, database);
        let descriptors: Vec<_> = files.iter().map(File::as_fd).collect();
        let bound = borrowed.worker().bind(&Bind { database, limits_history }, access, generation, &descriptors);
        match bound {
            Ok(()) => Ok(borrowed),
            Err(error) => {
                borrowed.worker().is_spent = true;
                Err(EngineError::Fault { context: "start a worker process".into(), source: error.into() })
            }
        }
    }

    fn take_blank(&self) -> Result<WorkerProcess, EngineError> {
        let until = Instant::now() + self.settings.wait;
        let mut state = self.state.lock();
        state.waiting += 1;
        let taken = loop {
            if state.is_closed {
                break Err(EngineError::Unavailable("the server is stopping".into()));
            }
            if state.bound >= self.settings.most && !state.idle.is_empty() {
                // The longest idle worker makes room.
                let oldest = (0..state.idle.len()).min_by_key(|at| state.idle[*at].idle_since).unwrap_or(0);
                drop(state.idle.swap_remove(oldest));
                state.bound -= 1;
            }
            if state.bound < self.settings.most
                && let Some(worker) = state.blank.pop()
            {
                if worker.has_ended() {
                    continue;
                }
                state.bound += 1;
                self.changed.notify_all();
                break Ok(worker);
            }
            if state.bound >= self.settings.most && self.end_stalled(&mut state) {
                continue;
            }
            self.changed.notify_all();
            if self.changed.wait_until(&mut state, until).timed_out() {
                break Err(match state.last_error.take() {
                    Some(error) if state.bound < self.settings.most => EngineError::Unavailable(error),
                    _ => EngineError::Busy,
                });
            }
        };
        state.waiting -= 1;
        taken
    }

    /// Ends the longest stalled call if clients that stall hold more than half of the workers, and frees its place: its
    /// thread may wait for its client for long. Returns `true` if it did.
    fn end_stalled(&self, state: &mut State) -> bool {
        let now = self.moment();
        let limit = u64::try_from(STALLED.as_millis()).unwrap_or(0);
        let stalled = state.busy.iter().filter_map(|(pid, (_, shared))| {
            let since = shared.stalled_since.load(Ordering::Relaxed);
            let is_stalled =
                since > 0 && now.saturating_sub(since) >= limit && !shared.is_revoked.load(Ordering::Relaxed);
            is_stalled.then_some((since, *pid))
        });
        let stalled: Vec<_> = stalled.collect();
        let is_over = stalled.len() > self.settings.most / 2;
        let longest = stalled.into_iter().min().filter(|_| is_over);
        let Some((_, shared)) = longest.and_then(|(_, pid)| state.busy.remove(&pid)) else { return false };
        shared.is_revoked.store(true, Ordering::Relaxed);
        shared.kill();
        state.bound -= 1;
        true
    }

    fn lend(self: &Arc<Self>, state: &mut State, worker: WorkerProcess, database: DatabaseId) -> Borrowed {
        if state.is_closed {
            worker.shared.is_revoked.store(true, Ordering::Relaxed);
            worker.shared.kill();
        }
        if state.busy.insert(worker.shared.pid, (database, Arc::clone(&worker.shared))).is_some() {
            // A worker that ended in its call had the same number. Its place is free.
            state.bound -= 1;
        }
        Borrowed { pool: Arc::clone(self), worker: Some(worker) }
    }

    fn give_back(&self, mut worker: WorkerProcess) {
        let mut state = self.state.lock();
        // Another worker may have got the number of a process that ended.
        let is_listed =
            state.busy.get(&worker.shared.pid).is_some_and(|(_, shared)| Arc::ptr_eq(shared, &worker.shared));
        if !is_listed {
            // Its place was freed when its call was ended.
            drop(state);
            return;
        }
        state.busy.remove(&worker.shared.pid);
        let generation = worker.database.and_then(|(database, _)| state.generations.get(&database)).copied();
        let is_current = worker.generation == generation.unwrap_or(0);
        let is_revoked = worker.shared.is_revoked.load(Ordering::Relaxed);
        if worker.is_spent || !is_current || is_revoked || state.is_closed || worker.calls >= self.settings.most_calls {
            state.bound -= 1;
        } else {
            worker.idle_since = Instant::now();
            state.idle.push(worker);
            if state.waiting > 0 {
                self.changed.notify_all();
            }
            return;
        }
        self.changed.notify_all();
        drop(state);
        drop(worker);
    }

    /// Counts a worker that was killed.
    pub(crate) fn count_killed(&self) {
        self.state.lock().killed += 1;
    }

    /// Ends the idle workers of a database, before or after its file is replaced. Those in use end with their call.
    pub(crate) fn evict(&self, database: DatabaseId) {
        let mut state = self.state.lock();
        *state.generations.entry(database).or_default() += 1;
        let (evicted, kept): (Vec<_>, Vec<_>) =
            state.idle.drain(..).partition(|worker| worker.database.is_some_and(|(bound, _)| bound == database));
        state.idle = kept;
        state.bound -= evicted.len();
        self.changed.notify_all();
        drop(state);
        drop(evicted);
    }

    /// Ends the calls of a database, because it is removed.
    pub(crate) fn revoke(&self, database: DatabaseId) {
        for (bound, shared) in self.state.lock().busy.values() {
            if *bound == database {
                shared.is_revoked.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Ends the workers that have a database's file open for writing, because it is replaced. The caller has the write
    /// turn, so none of them writes.
    pub(crate) fn end_writers(&self, database: DatabaseId) {
        for (bound, shared) in self.state.lock().busy.values() {
            if *bound == database && shared.writes.load(Ordering::Relaxed) {
                shared.kill();
            }
        }
    }

    /// Ends all workers. Running calls end at once, later ones are refused.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        for (_, shared) in state.busy.values() {
            shared.is_revoked.store(true, Ordering::Relaxed);
            shared.kill();
        }
        let ended = (std::mem::take(&mut state.blank), std::mem::take(&mut state.idle));
        state.bound -= ended.1.len();
        self.changed.notify_all();
        drop(state);
        drop(ended);
    }
}

/// A worker in use. It returns to the pool when dropped.
#[derive(Debug)]
pub(crate) struct Borrowed {
    pool: Arc<Pool>,
    worker: Option<WorkerProcess>,
}

impl Borrowed {
    pub(crate) fn worker(&mut self) -> &mut WorkerProcess {
        self.worker.as_mut().unwrap_or_else(|| unreachable!("the worker is taken when dropped"))
    }

    /// Returns what becomes readable when the worker has sent something.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.worker.as_ref().unwrap_or_else(|| unreachable!("the worker is taken when dropped")).channel.as_fd()
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            self.pool.give_back(worker);
        }
    }
}

/// Opens the file of a database, and for writing the file of its locks, which is made if it does not exist.
pub(crate) fn open(path: &Path, access: Access) -> io::Result<Vec<File>> {
    if access == Access::Read {
        return Ok(vec![File::open(path)?]);
    }
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mode = file.metadata()?.mode() & 0o777;
    let lock =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(mode).open(lock_path(path))?;
    Ok(vec![file, lock])
}

/// Keeps blank workers ready, and ends those that are idle for too long.
fn keep_ready(launcher: &Launcher, pool: &Weak<Pool>) {
    loop {
        let Some(pool) = pool.upgrade() else { return };
        let mut state = pool.state.lock();
        if state.is_closed {
            return;
        }
        let idle = pool.settings.idle;
        let (ended, kept): (Vec<_>, Vec<_>) =
            state.idle.drain(..).partition(|worker| worker.idle_since.elapsed() >= idle || worker.has_ended());
        state.idle = kept;
        state.bound -= ended.len();
        state.blank.retain(|worker| !worker.has_ended());
        let wanted = pool.settings.blank.max(state.waiting.min(pool.settings.most));
        if state.blank.len() >= wanted {
            pool.changed.wait_for(&mut state, TIDY_EVERY);
            drop(state);
            drop(ended);
            continue;
        }
        drop(state);
        drop(ended);
        let started = launcher.launch().and_then(|launched| WorkerProcess::set_up(launched, &pool.settings.setup));
        let mut state = pool.state.lock();
        match started {
            Ok(_) if state.is_closed => return,
            Ok(worker) => {
                state.blank.push(worker);
                state.last_error = None;
                pool.changed.notify_all();
            }
            Err(error) => {
                tracing::error!(%error, "cannot start a worker process");
                state.last_error = Some(error.to_string());
                pool.changed.wait_for(&mut state, RETRY);
            }
        }
    }
}
