//! The engine over worker processes: the implementation of the port.

mod files;
mod port;
mod previews;
mod reads;
pub(crate) mod sinks;
mod trial_merges;

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use branchyard_domain::ports::{CancellationToken, Engine, EngineError, Reachability, RowSink, SqlFailure, Written};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_engine_doltlite::{
    AncestorCache, Ancestry, Files, FormatCheck, MemoryLender as _, MemoryPool, PreviewCopies, PutOffCopies, Temporary,
    Trials, WriteQueues, WriteTurn, copy_file, copy_for_now, format_of, io_fault, limit_process_memory, missing,
    refuse_newer,
};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use self::port::head_of;
use self::sinks::OnceDescribed;
use crate::call::{self, Begun, Bounds, Ends, Failed, Outcome, Resources};
use crate::launcher::Launcher;
use crate::messages::{Call, Setup};
use crate::options::ProcessOptions;
use crate::pool::{Borrowed, Pool, PoolSettings, WorkerLoad};
use crate::process::Access;
use crate::wire::Wire;

/// Time for the commits of a batch of writes, beside that of their statements: a disk may be slow.
const COMMITTING: Duration = Duration::from_secs(2);
/// Limit of fetches and collections, which may copy a long history. A worker that exceeds it does not compute any more.
const COPYING: Duration = Duration::from_secs(3_600);
/// Limit of calls that have no limit of their own and take milliseconds.
const SHORT: Duration = Duration::from_secs(120);
/// Least limit of calls that the engine of the worker limits step by step.
const LEAST: Duration = Duration::from_secs(1);

/// An engine whose databases are opened by confined worker processes only. This process manages their files.
#[derive(Debug)]
pub struct ProcessEngine {
    pub(crate) options: ProcessOptions,
    pub(crate) files: Files,
    pub(crate) pool: Arc<Pool>,
    formats: FormatCheck,
    put_off: PutOffCopies,
    queues: WriteQueues,
    memory: Arc<MemoryPool>,
    ancestry: Ancestry,
    ancestors: Mutex<AncestorCache>,
    trials: Trials,
    preview_copies: PreviewCopies,
    reachability: OnceLock<HiddenReachability>,
}

/// The rule that decides which commits databases show.
struct HiddenReachability(Arc<dyn Reachability>);

impl std::fmt::Debug for HiddenReachability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reachability")
    }
}

/// How a failed call is reported.
#[derive(Clone, Copy)]
enum Blame<'a> {
    /// A user's statement, which may be the reason.
    Statement(&'a str),
    /// Anything else.
    Server,
}

/// A read of a user.
struct UserRead<'a> {
    database: DatabaseId,
    call: &'a Call,
    timeout: Duration,
    canceled: &'a CancellationToken,
    blame: Blame<'a>,
}

impl ProcessEngine {
    /// Opens the folder of the databases, and creates it if it does not exist. Only one server at a time may use a folder.
    /// Starts the launcher and the first worker.
    ///
    /// Call this before anything else in the process uses SQLite: otherwise the limit of the process has no effect.
    ///
    /// # Errors
    /// [`EngineError`] if the folder cannot be used, or workers cannot be started or confined.
    pub fn open(folder: PathBuf, options: ProcessOptions) -> Result<Self, EngineError> {
        let fault = |error| io_fault("start the worker processes", error);
        limit_process_memory(options.engine.process_memory);
        // Before anything else is opened, so that the launcher inherits nothing.
        let launcher = Launcher::start(options.command.clone()).map_err(fault)?;
        let files = Files::open(folder).map_err(|error| io_fault("open the folder of the databases", error))?;
        let engine = &options.engine;
        let memory = Arc::new(MemoryPool::new(engine.total_memory));
        // A statement can never have more than the pool has, so a worker must not wait for more.
        let most = memory.most_for(i64::try_from(engine.statement_memory).unwrap_or(i64::MAX));
        let setup = Setup {
            statement_memory: usize::try_from(most).unwrap_or_default(),
            most_memory: memory.most_for(i64::MAX),
            pattern_bytes: options.pattern_bytes,
            bounded_functions: engine.bounded_functions,
            trial_merge_timeout: engine.trial_merge_timeout,
            fetch_step: engine.fetch_step,
            diff_timeout: engine.diff_timeout,
            count_timeout: engine.count_timeout,
            verify_timeout: engine.verify_timeout,
            long_every: engine.long.as_ref().map(|long| long.every),
            kills: options.kills,
            requires_confinement: options.requires_confinement,
        };
        let settings = PoolSettings {
            most: options.workers.max(2),
            blank: options.blank_workers.max(1),
            idle: options.idle,
            most_calls: options.most_calls,
            wait: options.worker_wait,
            setup,
        };
        let pool = Pool::start(launcher, settings).map_err(fault)?;
        Ok(Self {
            memory,
            options,
            files,
            pool,
            formats: FormatCheck::default(),
            put_off: PutOffCopies::default(),
            queues: WriteQueues::default(),
            ancestry: Ancestry::default(),
            ancestors: Mutex::default(),
            trials: Trials::default(),
            preview_copies: PreviewCopies::default(),
            reachability: OnceLock::new(),
        })
    }

    /// Returns the numbers of worker processes.
    pub fn workers(&self) -> WorkerLoad {
        self.pool.load()
    }

    /// Ends all worker processes. Running calls end at once, later ones fail with [`EngineError::Unavailable`].
    pub fn close(&self) {
        self.pool.close();
    }

    /// Removes the unfinished files of a process that was killed. Only the process that serves the folder may call this,
    /// and only before it uses the folder.
    ///
    /// # Errors
    /// [`EngineError`] if something cannot be removed.
    pub fn clear_temporary(&self) -> Result<(), EngineError> {
        self.files.clear_temporary().map_err(|error| io_fault("remove temporary files", error))
    }

    /// Copies the file of a database to `to`, and returns the size of the copy in bytes. The copy holds every commit that
    /// existed at the time of the call, regardless of concurrent writes.
    ///
    /// # Errors
    /// [`EngineError`]; [`EngineError::Damaged`] if the database has no file.
    pub fn back_up(&self, database: DatabaseId, to: &Path) -> Result<u64, EngineError> {
        self.make_copy(database)?;
        let path = self.files.path(database);
        if !path.exists() {
            return Err(missing(database));
        }
        copy_file(&path, to).map_err(|error| io_fault("back up a database", error))
    }

    /// Replaces the file of a database by a copy of a file that [`Self::back_up`] created.
    ///
    /// # Errors
    /// [`EngineError`] if it is not a database of the engine, or cannot be copied.
    pub fn restore(&self, database: DatabaseId, from: &Path) -> Result<(), EngineError> {
        refuse_newer(format_of(from).map_err(|error| io_fault("read the file to restore", error))?)?;
        let turn = self.queues.enter(database);
        let temporary = self.files.temporary();
        copy_file(from, temporary.path()).map_err(|error| io_fault("copy a database", error))?;
        self.in_file::<()>(database, &temporary, &Call::FinishCopy, SHORT)?;
        self.install(&turn, temporary.path())
    }

    /// Checks that workers may open the file of a database. Makes it before if the copy was put off.
    fn check_format(&self, database: DatabaseId) -> Result<(), EngineError> {
        if self.formats.has_passed(database) {
            return Ok(());
        }
        self.make_copy(database)?;
        self.formats.check(database, &self.files.path(database))
    }

    fn limits_history(&self) -> bool {
        self.reachability.get().is_some()
    }

    /// Runs a call on a worker of a database.
    fn call<T: Wire>(
        &self,
        database: DatabaseId,
        access: Access,
        call: &Call,
        bounds: &Bounds,
        ends: &mut Ends<'_>,
        blame: Blame<'_>,
    ) -> Result<T, EngineError>
    where
        Result<T, EngineError>: Wire,
    {
        self.call_with(database, access, call, &[], bounds, ends, blame)
    }

    /// Runs a call on a worker of a database, with descriptors.
    #[expect(clippy::too_many_arguments, reason = "the parts of a call")]
    fn call_with<T: Wire>(
        &self,
        database: DatabaseId,
        access: Access,
        call: &Call,
        descriptors: &[BorrowedFd<'_>],
        bounds: &Bounds,
        ends: &mut Ends<'_>,
        blame: Blame<'_>,
    ) -> Result<T, EngineError>
    where
        Result<T, EngineError>: Wire,
    {
        self.check_format(database)?;
        let mut is_second = false;
        loop {
            let mut borrowed = self.pool.take(&self.files, database, access, self.limits_history())?;
            let outcome = self.run::<Result<T, EngineError>>(&mut borrowed, database, call, descriptors, bounds, ends);
            drop(borrowed);
            match outcome {
                Outcome { result: Ok(result), .. } => return result,
                // A worker may end for reasons that are not the call's: the operator, or the system's lack of memory.
                Outcome { result: Err(Failed::Ended), is_begun: false, .. } if !is_second => is_second = true,
                Outcome { result: Err(failed), .. } => return Err(self.report(failed, blame)),
            }
        }
    }

    /// Runs a call on a worker that is in use.
    pub(crate) fn run<T: Wire>(
        &self,
        borrowed: &mut Borrowed,
        database: DatabaseId,
        call: &Call,
        descriptors: &[BorrowedFd<'_>],
        bounds: &Bounds,
        ends: &mut Ends<'_>,
    ) -> Outcome<T> {
        let begun = call::begin(borrowed, call);
        self.run_begun(borrowed, begun, database, descriptors, bounds, ends)
    }

    /// Runs a begun call to its end.
    fn run_begun<T: Wire>(
        &self,
        borrowed: &mut Borrowed,
        begun: Result<Begun, Failed>,
        database: DatabaseId,
        descriptors: &[BorrowedFd<'_>],
        bounds: &Bounds,
        ends: &mut Ends<'_>,
    ) -> Outcome<T> {
        let pool = Arc::clone(borrowed.pool());
        let resources = Resources {
            pool: &pool,
            memory: &self.memory,
            queues: &self.queues,
            ancestry: &self.ancestry,
            reachability: self.reachability.get().map(|reachability| &reachability.0),
            long: self.options.long(),
            kill_after: self.options.kill_after,
            most_memory: call::most_memory(&self.options.engine),
            make_temporary: &|| self.files.unnamed(),
        };
        call::run(borrowed, begun, &resources, database, descriptors, bounds, ends)
    }

    /// Returns the error of a call that has no result.
    fn report(&self, failed: Failed, blame: Blame<'_>) -> EngineError {
        let statement = |text: &str| {
            let digest = Sha256::digest(text.as_bytes());
            digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let digest = match blame {
            Blame::Statement(text) => statement(text),
            Blame::Server => String::new(),
        };
        let sql = |failure| EngineError::Sql { failure, statement: 1 };
        match failed {
            Failed::Overdue(limit) => {
                let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                tracing::warn!(statement = digest, millis, "a worker process did not end in time and was killed");
                match blame {
                    Blame::Statement(_) => sql(SqlFailure::TimedOut(millis)),
                    Blame::Server => EngineError::TimedOut(millis),
                }
            }
            Failed::Canceled => EngineError::Unavailable("the call was canceled".into()),
            Failed::NoMemory => EngineError::Busy,
            Failed::Ended => {
                tracing::error!(statement = digest, "a worker process ended in the middle of a call");
                match blame {
                    Blame::Statement(_) => sql(SqlFailure::Engine(
                        "the statement ended the process that ran it; nothing was changed".into(),
                    )),
                    Blame::Server => EngineError::Unavailable("a worker process ended in the middle of a call".into()),
                }
            }
            Failed::Broke(what) => {
                tracing::error!(statement = digest, what, "a worker process broke the protocol and was killed");
                match blame {
                    Blame::Statement(_) => sql(SqlFailure::Engine(
                        "the statement broke the process that ran it; nothing was changed".into(),
                    )),
                    Blame::Server => {
                        EngineError::Fault { context: "talk to a worker process".into(), source: what.into() }
                    }
                }
            }
            Failed::Io(error) => io_fault("talk to a worker process", error),
        }
    }

    /// Runs a call of the server that reads.
    fn ask<T: Wire>(&self, database: DatabaseId, call: &Call, limit: Duration) -> Result<T, EngineError>
    where
        Result<T, EngineError>: Wire,
    {
        self.call(database, Access::Read, call, &within(limit), &mut Ends::default(), Blame::Server)
    }

    /// Runs a call in a file that is not the database's own yet, or a private copy of it.
    fn in_file<T: Wire>(
        &self,
        database: DatabaseId,
        file: &Temporary,
        call: &Call,
        limit: Duration,
    ) -> Result<T, EngineError>
    where
        Result<T, EngineError>: Wire,
    {
        let mut is_second = false;
        loop {
            let mut borrowed = self.pool.take_blank_for(file.path(), database, Access::Write, false)?;
            borrowed.worker().is_spent = true;
            let outcome = self.run(&mut borrowed, database, call, &[], &within(limit), &mut Ends::default());
            match outcome.result {
                Ok(result) => return result,
                // Only a trial may begin again: the other calls may have changed the file.
                Err(Failed::Ended) if !is_second && matches!(call, Call::Trial { .. }) => is_second = true,
                Err(failed) => return Err(self.report(failed, Blame::Server)),
            }
        }
    }

    /// Runs a call on a worker of its own in a file that is not the database's, with descriptors of further files.
    fn beside<T: Wire>(
        &self,
        database: DatabaseId,
        (path, access): (&Path, Access),
        further: &[File],
        call: &Call,
    ) -> Result<T, EngineError>
    where
        Result<T, EngineError>: Wire,
    {
        let descriptors: Vec<_> = further.iter().map(File::as_fd).collect();
        let mut borrowed = self.pool.take_blank_for(path, database, access, false)?;
        borrowed.worker().is_spent = true;
        let outcome = self.run(&mut borrowed, database, call, &descriptors, &within(COPYING), &mut Ends::default());
        outcome.result.unwrap_or_else(|failed| Err(self.report(failed, Blame::Server)))
    }

    /// Checks in another process that a new file is what its writer says. `held` are those of `heads` that it reports.
    fn check_new_file(
        &self,
        database: DatabaseId,
        new: &Path,
        heads: &[CommitHash],
        held: &[CommitHash],
        commits: Option<u64>,
    ) -> Result<(), EngineError> {
        for head in heads.iter().filter(|head| !held.contains(head)) {
            if self.has(database, head)? {
                return Err(EngineError::Damaged(format!("a new file lacks commit {head}")));
            }
        }
        let held: Vec<_> = heads.iter().filter(|head| held.contains(head)).cloned().collect();
        self.beside(database, (new, Access::Read), &[], &Call::CheckNewFile { heads: held, commits })
    }

    /// Makes a file the file of a database.
    fn install(&self, turn: &WriteTurn, new: &Path) -> Result<(), EngineError> {
        let database = turn.database();
        self.evict(database);
        let installed = self.files.install(new, database).map_err(|error| io_fault("install a database", error));
        self.evict(database);
        installed
    }

    fn evict(&self, database: DatabaseId) {
        self.pool.evict(database);
        self.ancestors.lock().forget(database);
        self.ancestry.forget(database);
        self.trials.forget(database);
        self.formats.forget(database);
    }

    /// Proves in another process that the last of new heads can be read, and that each descends from the one before, the
    /// first from `base`.
    fn prove(&self, database: DatabaseId, mut heads: Vec<CommitHash>, base: &CommitHash) -> Result<(), EngineError> {
        heads.dedup();
        if heads.iter().all(|head| head == base) {
            return Ok(());
        }
        self.ask(database, &Call::Prove { heads, base: base.clone() }, SHORT)
    }

    /// Runs a write under the write turn, and proves its result.
    #[expect(clippy::too_many_arguments, reason = "the parts of a write")]
    fn change<T: Wire>(
        &self,
        database: DatabaseId,
        base: &CommitHash,
        call: &Call,
        limit: Duration,
        ends: &mut Ends<'_>,
        blame: Blame<'_>,
        head: impl FnOnce(&T) -> Option<CommitHash>,
    ) -> Result<T, EngineError>
    where
        Result<T, EngineError>: Wire,
    {
        let turn = self.queues.enter(database);
        let done: T = self.call(database, Access::Write, call, &within(limit), ends, blame)?;
        drop(turn);
        if let Some(head) = head(&done) {
            self.prove(database, vec![head], base)?;
        }
        Ok(done)
    }

    /// Runs a call that makes at most `most` commits, one after the other, and proves them.
    fn change_in_batch(
        &self,
        database: DatabaseId,
        base: &CommitHash,
        call: &Call,
        limit: Duration,
        most: usize,
    ) -> Result<Vec<Result<Written, EngineError>>, EngineError> {
        let turn = self.queues.enter(database);
        let (mut ends, blame) = (Ends::default(), Blame::Server);
        let results: Vec<Result<Written, EngineError>> =
            self.call(database, Access::Write, call, &within(limit), &mut ends, blame)?;
        drop(turn);
        let is_in_order = results.len() <= most && results.iter().rev().skip(1).all(Result::is_ok);
        if !is_in_order {
            return Err(EngineError::Unavailable("a worker answered out of order".into()));
        }
        let heads = results.iter().flatten().filter_map(|written| head_of(&written.outcome)).collect();
        self.prove(database, heads, base)?;
        Ok(results)
    }

    /// Runs a read of a user, which a worker may have begun.
    fn stream<T: Wire>(
        &self,
        UserRead { database, call, timeout, canceled, blame }: UserRead<'_>,
        mut begun: Option<(Borrowed, Begun)>,
        sink: &mut dyn RowSink,
        when_stopped: T,
    ) -> Result<T, EngineError>
    where
        Result<T, EngineError>: Wire,
    {
        let bounds = Bounds { limit: timeout, canceled: canceled.clone() };
        let mut is_second = false;
        loop {
            let (mut borrowed, begun) = match begun.take() {
                Some((borrowed, begun)) => (borrowed, Ok(begun)),
                None => {
                    self.check_format(database)?;
                    let history = self.limits_history();
                    let mut borrowed = self.pool.take(&self.files, database, Access::Read, history)?;
                    let begun = call::begin(&mut borrowed, call);
                    (borrowed, begun)
                }
            };
            let mut once = OnceDescribed { sink, is_described: is_second };
            let mut ends = Ends { sink: Some(&mut once), ..Ends::default() };
            let outcome: Outcome<Result<T, EngineError>> =
                self.run_begun(&mut borrowed, begun, database, &[], &bounds, &mut ends);
            drop(borrowed);
            return match outcome {
                // What fails after the rows that are needed does not concern the receiver.
                Outcome { result: Ok(Err(_)) | Err(_), is_stopped: true, .. } => Ok(when_stopped),
                Outcome { result: Ok(result), .. } => result,
                Outcome { result: Err(Failed::Canceled), .. } if canceled.is_canceled() => {
                    Err(self.report(Failed::Overdue(timeout), blame))
                }
                Outcome { result: Err(Failed::Ended), is_begun: false, .. } if !is_second => {
                    is_second = true;
                    continue;
                }
                Outcome { result: Err(failed), .. } => Err(self.report(failed, blame)),
            };
        }
    }

    /// Copies the file of a database for a while. Returns `None` if it is longer than `most` bytes and the file system
    /// cannot share blocks.
    fn private_copy(&self, database: DatabaseId, most: u64) -> Result<Option<Temporary>, EngineError> {
        self.check_format(database)?;
        let (path, copy) = (self.files.path(database), self.files.temporary());
        match copy_for_now(&path, copy.path(), most, self.options.engine.share_blocks) {
            Ok(true) => Ok(Some(copy)),
            Ok(false) => Ok(None),
            Err(_) if !path.exists() => Err(missing(database)),
            Err(error) => Err(io_fault("copy a database for a while", error)),
        }
    }

    fn has(&self, database: DatabaseId, commit: &CommitHash) -> Result<bool, EngineError> {
        Ok(self.commit(database, commit)?.is_some())
    }
}

/// Returns the bounds of a call that cannot be canceled.
fn within(limit: Duration) -> Bounds {
    Bounds { limit, canceled: CancellationToken::default() }
}

impl Drop for ProcessEngine {
    fn drop(&mut self) {
        self.pool.close();
    }
}
