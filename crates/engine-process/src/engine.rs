//! The engine over worker processes: the implementation of the port.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use branchyard_domain::entities::{
    Commit, Conflict, LogEntry, LogPosition, SchemaObject, Signature, TableChange, TableSchema,
};
use branchyard_domain::ports::{
    CancellationToken, ChangedRows, Collected, Engine, EngineError, ImportJob, KeptHeads, MergeJob, MergeOutcome,
    Reachability, ReadQuery, ReadReport, RecordedFormats, RowPage, RowSink, RowSource, RowTest, ScriptJob, Selected,
    Selection, SqlFailure, TableScan, WriteJob, Written,
};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_engine_doltlite::{
    AncestorCache, Ancestry, COLLECTION_ROUNDS, CollectedHistory, CollectionSource, ConflictQuery, ConflictWindow,
    FileIdentity, Files, FormatCheck, HeadPair, MemoryLender as _, MemoryPool, NEWEST_FORMAT, Temporary, TrialMerges,
    Trials, WriteQueues, WriteTurn, copy_file, copy_for_now, format_of, io_fault, limit_process_memory, missing,
    refuse_newer, shape,
};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::call::{self, Bounds, Ends, Failed, Outcome, Resources};
use crate::history::descends;
use crate::launcher::Launcher;
use crate::messages::{Call, Import, Merge, Page, Script, Setup, Write};
use crate::options::ProcessOptions;
use crate::pool::{self, Borrowed, Pool, PoolSettings, WorkerLoad};
use crate::process::Access;
use crate::wire::Wire;

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
    queues: WriteQueues,
    memory: Arc<MemoryPool>,
    ancestry: Ancestry,
    ancestors: Mutex<AncestorCache>,
    trials: Trials,
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
            queues: WriteQueues::default(),
            ancestry: Ancestry::default(),
            ancestors: Mutex::default(),
            trials: Trials::default(),
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
        self.install(&turn, temporary)
    }

    /// Checks that workers may open the file of a database.
    fn check_format(&self, database: DatabaseId) -> Result<(), EngineError> {
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
        self.check_format(database)?;
        let mut is_second = false;
        loop {
            let mut borrowed = self.pool.take(&self.files, database, access, self.limits_history())?;
            let outcome = self.run::<Result<T, EngineError>>(&mut borrowed, database, call, &[], bounds, ends);
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
        call::run(borrowed, &resources, database, call, descriptors, bounds, ends)
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
    fn install(&self, turn: &WriteTurn, file: Temporary) -> Result<(), EngineError> {
        let database = turn.database();
        self.evict(database);
        let installed = self.files.install(file, database).map_err(|error| io_fault("install a database", error));
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

    /// Proves in another process that a new head can be read and descends from its base.
    fn prove(&self, database: DatabaseId, head: &CommitHash, base: &CommitHash) -> Result<(), EngineError> {
        if head == base {
            return Ok(());
        }
        self.ask(database, &Call::Prove { head: head.clone(), base: base.clone() }, SHORT)
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
            self.prove(database, &head, base)?;
        }
        Ok(done)
    }

    /// Runs a read of a user.
    #[expect(clippy::too_many_arguments, reason = "the parts of a read")]
    fn stream<T: Wire>(
        &self,
        database: DatabaseId,
        call: &Call,
        timeout: Duration,
        canceled: &CancellationToken,
        sink: &mut dyn RowSink,
        blame: Blame<'_>,
        when_stopped: T,
    ) -> Result<T, EngineError>
    where
        Result<T, EngineError>: Wire,
    {
        self.check_format(database)?;
        let bounds = Bounds { limit: timeout, canceled: canceled.clone() };
        let mut is_second = false;
        loop {
            let mut borrowed = self.pool.take(&self.files, database, Access::Read, self.limits_history())?;
            let mut once = OnceDescribed { sink, is_described: is_second };
            let mut ends = Ends { sink: Some(&mut once), ..Ends::default() };
            let outcome: Outcome<Result<T, EngineError>> =
                self.run(&mut borrowed, database, call, &[], &bounds, &mut ends);
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
}

/// Returns the bounds of a call that cannot be canceled.
fn within(limit: Duration) -> Bounds {
    Bounds { limit, canceled: CancellationToken::default() }
}

/// Forwards the columns of a result to `sink` once, although the call may begin again before its first row.
struct OnceDescribed<'a> {
    sink: &'a mut dyn RowSink,
    is_described: bool,
}

impl RowSink for OnceDescribed<'_> {
    fn columns(&mut self, columns: &[branchyard_domain::ports::Column]) -> std::ops::ControlFlow<()> {
        if std::mem::replace(&mut self.is_described, true) {
            std::ops::ControlFlow::Continue(())
        } else {
            self.sink.columns(columns)
        }
    }

    fn row(&mut self, row: &[branchyard_domain::ports::ValueRef<'_>]) -> std::ops::ControlFlow<()> {
        self.sink.row(row)
    }
}

/// Counts the rows that `sink` takes.
struct CountedRows<'a> {
    sink: &'a mut dyn RowSink,
    count: u64,
    is_stopped: bool,
}

impl RowSink for CountedRows<'_> {
    fn columns(&mut self, columns: &[branchyard_domain::ports::Column]) -> std::ops::ControlFlow<()> {
        let flow = self.sink.columns(columns);
        self.is_stopped = flow.is_break();
        flow
    }

    fn row(&mut self, row: &[branchyard_domain::ports::ValueRef<'_>]) -> std::ops::ControlFlow<()> {
        self.count += 1;
        let flow = self.sink.row(row);
        self.is_stopped = flow.is_break();
        flow
    }
}

/// Takes rows that no one needs.
struct NoRows;

impl RowSink for NoRows {
    fn columns(&mut self, _: &[branchyard_domain::ports::Column]) -> std::ops::ControlFlow<()> {
        std::ops::ControlFlow::Continue(())
    }

    fn row(&mut self, _: &[branchyard_domain::ports::ValueRef<'_>]) -> std::ops::ControlFlow<()> {
        std::ops::ControlFlow::Continue(())
    }
}

impl Drop for ProcessEngine {
    fn drop(&mut self) {
        self.pool.close();
    }
}

impl TrialMerges for ProcessEngine {
    fn trial_base(&self, pair: &HeadPair) -> Result<Option<CommitHash>, EngineError> {
        self.merge_base(pair.database, &pair.ours, &pair.theirs)
    }

    fn is_long(&self, database: DatabaseId) -> bool {
        let length = std::fs::metadata(self.files.path(database)).map_or(0, |file| file.len());
        length > self.options.engine.trial_copy_bytes
    }

    fn try_merge(
        &self,
        pair: &HeadPair,
        base: &CommitHash,
        queries: &[ConflictQuery],
        wait_for_copy: bool,
    ) -> Result<Option<Vec<ConflictWindow>>, EngineError> {
        let engine = &self.options.engine;
        let most = if wait_for_copy { u64::MAX } else { engine.trial_copy_bytes };
        let call = Call::Trial { pair: pair.clone(), base: base.clone(), queries: queries.to_vec() };
        let mut is_second = false;
        loop {
            let Some(copy) = self.private_copy(pair.database, most)? else { return Ok(None) };
            match self.in_file(pair.database, &copy, &call, engine.trial_merge_timeout + SHORT) {
                // The file may have been replaced or cut off during the copy.
                Err(EngineError::NoSuchCommit(_) | EngineError::Damaged(_) | EngineError::DamagedCommit { .. })
                    if !is_second =>
                {
                    is_second = true;
                }
                merged => return merged.map(Some),
            }
        }
    }
}

impl ProcessEngine {
    /// Copies the file of a database for a while. Returns `None` if it is longer than `most` bytes and the file system
    /// cannot share blocks.
    fn private_copy(&self, database: DatabaseId, most: u64) -> Result<Option<Temporary>, EngineError> {
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

impl Engine for ProcessEngine {
    fn create(&self, database: DatabaseId, author: &Signature, message: &str) -> Result<CommitHash, EngineError> {
        let turn = self.queues.enter(database);
        let temporary = self.files.temporary();
        File::create_new(temporary.path()).map_err(|error| io_fault("create a database", error))?;
        let call = Call::Create { author: author.clone(), message: message.to_owned() };
        let head = self.in_file(database, &temporary, &call, SHORT)?;
        self.install(&turn, temporary)?;
        Ok(head)
    }

    fn copy(&self, from: DatabaseId, to: DatabaseId) -> Result<(), EngineError> {
        self.check_format(from)?;
        self.restore(to, &self.files.path(from))
    }

    fn remove(&self, database: DatabaseId) -> Result<(), EngineError> {
        // What runs on the database ends now, so that the removal does not wait for it.
        self.pool.revoke(database);
        let turn = self.queues.enter(database);
        self.evict(database);
        let removed = self.files.remove(database).map_err(|error| io_fault("remove a database", error));
        self.pool.revoke(database);
        self.evict(database);
        drop(turn);
        removed
    }

    fn collect(&self, database: DatabaseId, kept: &mut dyn KeptHeads) -> Result<Collected, EngineError> {
        let open =
            |path: &Path| pool::open(path, Access::Write).map_err(|error| io_fault("open a file to collect", error));
        self.check_format(database)?;
        let heads = kept.heads()?;
        let source = CollectionSource::copy(&self.files, database, self.options.engine.share_blocks)?;
        let new = self.files.temporary();
        File::create_new(new.path()).map_err(|error| io_fault("create a new file", error))?;
        let call = Call::Collect { heads: heads.clone() };
        let into = open(new.path())?;
        let held: CollectedHistory = self.beside(database, (source.copy.path(), Access::Write), &into, &call)?;
        drop(into);
        self.check_new_file(database, new.path(), &heads, &held.heads, Some(held.commits))?;
        let turn = self.queues.enter(database);
        let before = source.length_now(&self.files, database)?;
        // Not all that was asked for: what the copy lacked may have been fetched since.
        let mut covered: BTreeSet<CommitHash> = held.heads.into_iter().collect();
        for _ in 0..COLLECTION_ROUNDS {
            let lacking = kept.approve(&covered)?;
            if lacking.is_empty() {
                let after = FileIdentity::of(new.path()).map_err(|error| io_fault("look at a new file", error))?.1;
                self.pool.end_writers(database);
                self.install(&turn, new)?;
                return Ok(Collected { before, after });
            }
            let from = open(&self.files.path(database))?;
            let call = Call::Complete { heads: lacking.clone() };
            let held: Vec<CommitHash> = self.beside(database, (new.path(), Access::Write), &from, &call)?;
            self.check_new_file(database, new.path(), &lacking, &held, None)?;
            covered.extend(lacking);
        }
        Err(EngineError::Busy)
    }

    fn list(&self) -> Result<Vec<DatabaseId>, EngineError> {
        self.files.list().map_err(|error| io_fault("list the databases", error))
    }

    fn size_bytes(&self, database: DatabaseId) -> Result<u64, EngineError> {
        let path = self.files.path(database);
        Ok(std::fs::metadata(path).map_err(|error| io_fault("look at the size of a database", error))?.len())
    }

    fn newest_format(&self) -> u32 {
        NEWEST_FORMAT
    }

    fn format(&self, database: DatabaseId) -> Result<u32, EngineError> {
        self.formats.format(database, &self.files.path(database))
    }

    fn check_formats(&self, recorded: Arc<dyn RecordedFormats>) {
        self.formats.look_up_in(recorded);
    }

    fn commit(&self, database: DatabaseId, hash: &CommitHash) -> Result<Option<Commit>, EngineError> {
        match self.log(database, &hash.clone().into(), 1) {
            Err(EngineError::NoSuchCommit(_)) => Ok(None),
            found => Ok(found?.pop().map(|entry| entry.commit)),
        }
    }

    fn is_ancestor(
        &self,
        database: DatabaseId,
        ancestor: &CommitHash,
        descendant: &CommitHash,
    ) -> Result<bool, EngineError> {
        let fact = (database, ancestor.clone(), descendant.clone());
        if self.ancestors.lock().holds(&fact) {
            return Ok(true);
        }
        let call = Call::IsAncestor { ancestor: ancestor.clone(), descendant: descendant.clone() };
        let is = self.ask(database, &call, SHORT)?;
        if is {
            self.ancestors.lock().insert(fact);
        }
        Ok(is)
    }

    fn descends(&self, database: DatabaseId, heads: &[CommitHash], commit: &CommitHash) -> Result<bool, EngineError> {
        descends(&self.ancestry, database, heads, commit, &mut |from, limit| {
            self.ask(database, &Call::Parents { from: from.clone(), limit }, SHORT)
        })
    }

    fn limit_history(&self, reachability: Arc<dyn Reachability>) {
        self.reachability.get_or_init(|| HiddenReachability(reachability));
    }

    fn merge_base(
        &self,
        database: DatabaseId,
        a: &CommitHash,
        b: &CommitHash,
    ) -> Result<Option<CommitHash>, EngineError> {
        self.ask(database, &Call::MergeBase { a: a.clone(), b: b.clone() }, SHORT)
    }

    fn log(&self, database: DatabaseId, at: &LogPosition, limit: usize) -> Result<Vec<LogEntry>, EngineError> {
        self.ask(database, &Call::Log { at: at.clone(), limit }, SHORT)
    }

    fn fetch(&self, into: DatabaseId, from: DatabaseId, commit: &CommitHash) -> Result<(), EngineError> {
        if self.has(into, commit)? {
            return Ok(());
        }
        // Checked before anything is copied.
        if into == from || !self.has(from, commit)? {
            return Err(EngineError::NoSuchCommit(commit.clone()));
        }
        let copy = self.private_copy(from, u64::MAX)?;
        let copy = copy.ok_or_else(|| EngineError::Unavailable("the source is too large to copy".into()))?;
        let files = pool::open(copy.path(), Access::Write).map_err(|error| io_fault("open a copy", error))?;
        let descriptors: Vec<_> = files.iter().map(File::as_fd).collect();
        // A worker of its own: it sees two databases, and runs nothing else.
        let mut borrowed = self.pool.take_blank_for(&self.files.path(into), into, Access::Write, false)?;
        borrowed.worker().is_spent = true;
        let bounds = within(COPYING);
        let call = Call::Fetch { commit: commit.clone() };
        let outcome = self.run(&mut borrowed, into, &call, &descriptors, &bounds, &mut Ends::default());
        let fetched: Result<(), EngineError> =
            outcome.result.unwrap_or_else(|failed| Err(self.report(failed, Blame::Server)));
        fetched?;
        // The worker may have got the file before a collection replaced it.
        if self.has(into, commit)? {
            Ok(())
        } else {
            Err(EngineError::Unavailable("the file of the target was replaced meanwhile".into()))
        }
    }

    fn read(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        query: &ReadQuery<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<ReadReport, EngineError> {
        if let Some(long) = self.options.long()
            && long.turns.begin(shape(database, query.sql), &query.canceled).is_break()
        {
            return Err(EngineError::Busy);
        }
        let call = Call::Read { at: at.clone(), sql: query.sql.to_owned(), timeout: query.timeout };
        let stopped = ReadReport { deterministic: false };
        self.stream(database, &call, query.timeout, &query.canceled, sink, Blame::Statement(query.sql), stopped)
    }

    fn scan(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        scan: &TableScan<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Duration, EngineError> {
        let call = Call::Scan { at: at.clone(), table: scan.table.to_owned(), timeout: scan.timeout };
        self.stream(database, &call, scan.timeout, &scan.canceled, sink, Blame::Server, Duration::ZERO)
    }

    fn rows(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        wanted: &Selection<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Selected, EngineError> {
        let page = |limit: u64| Page {
            table: wanted.table.to_owned(),
            tests: wanted.tests.to_vec(),
            order: wanted.order.map(|order| (order.column.to_owned(), order.descending)),
            backwards: wanted.backwards,
            after: wanted.after.map(<[_]>::to_vec),
            skip: wanted.skip,
            limit,
            timeout: wanted.timeout,
        };
        let page_of = |limit: u64, sink: &mut dyn RowSink| {
            let (call, blame) = (Call::Rows { at: at.clone(), page: page(limit) }, Blame::Statement(wanted.table));
            self.stream(database, &call, wanted.timeout, &wanted.canceled, sink, blame, Selected::default())
        };
        let mut counted = CountedRows { sink, count: 0, is_stopped: false };
        let selected = page_of(wanted.limit, &mut counted)?;
        if !counted.is_stopped {
            return Ok(selected);
        }
        // The worker was ahead of the receiver, so its cursors are those of other rows.
        if counted.count == 0 {
            return Ok(Selected::default());
        }
        Ok(Selected { more: false, ..page_of(counted.count, &mut NoRows)? })
    }

    fn count(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        table: &str,
        tests: &[RowTest],
        timeout: Duration,
    ) -> Result<u64, EngineError> {
        let call = Call::Count { at: at.clone(), table: table.to_owned(), tests: tests.to_vec(), timeout };
        let (mut ends, blame) = (Ends::default(), Blame::Statement(table));
        self.call(database, Access::Read, &call, &within(timeout), &mut ends, blame)
    }

    fn write(&self, database: DatabaseId, job: &WriteJob<'_>) -> Result<Written, EngineError> {
        let call = Call::Write(Write {
            base: job.base.clone(),
            statements: job.statements.to_owned(),
            message: job.message.to_owned(),
            then_merge: job.then_merge.map(|(commit, message)| (commit.clone(), message.to_owned())),
            author: job.author.clone(),
            timeout: job.timeout,
        });
        // The merge has the same time again.
        let limit = if job.then_merge.is_some() { job.timeout * 2 } else { job.timeout };
        let (mut ends, blame) = (Ends::default(), Blame::Statement(job.statements));
        let head = |written: &Written| head_of(&written.outcome);
        self.change(database, job.base, &call, limit, &mut ends, blame, head).map_err(|error| match error {
            // The limit of the statements, not of both parts, is what the caller knows.
            EngineError::Sql { failure: SqlFailure::TimedOut(_), statement } => {
                let millis = u64::try_from(job.timeout.as_millis()).unwrap_or(u64::MAX);
                EngineError::Sql { failure: SqlFailure::TimedOut(millis), statement }
            }
            other => other,
        })
    }

    fn merge(&self, database: DatabaseId, job: &MergeJob<'_>) -> Result<MergeOutcome, EngineError> {
        let call = Call::Merge(Merge {
            ours: job.ours.clone(),
            theirs: job.theirs.clone(),
            message: job.message.to_owned(),
            author: job.author.clone(),
            resolve: job.resolve.clone(),
            timeout: job.timeout,
        });
        self.change(database, job.ours, &call, job.timeout, &mut Ends::default(), Blame::Server, head_of)
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
        let pair = HeadPair { database, ours: ours.clone(), theirs: theirs.clone() };
        let table = table.map(str::to_ascii_lowercase);
        self.trials.conflicts(self, &ConflictQuery { pair, table, skip, limit })
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
        self.trials.prepare(self, &HeadPair { database, ours: ours.clone(), theirs: theirs.clone() })
    }

    fn import(
        &self,
        database: DatabaseId,
        job: &ImportJob<'_>,
        rows: &mut dyn RowSource,
    ) -> Result<CommitHash, EngineError> {
        let call = Call::Import(Import {
            base: job.base.clone(),
            table: job.table.to_owned(),
            target: job.target.clone(),
            columns: job.columns.to_vec(),
            message: job.message.to_owned(),
            author: job.author.clone(),
            timeout: job.timeout,
        });
        let mut ends = Ends { rows: Some(rows), ..Ends::default() };
        self.change(database, job.base, &call, job.timeout, &mut ends, Blame::Server, |head: &CommitHash| {
            Some(head.clone())
        })
    }

    fn run_script(
        &self,
        database: DatabaseId,
        job: &ScriptJob<'_>,
        script: &mut dyn io::Read,
    ) -> Result<CommitHash, EngineError> {
        let call = Call::Script(Script {
            base: job.base.clone(),
            target: job.target.map(|(table, mode)| (table.to_owned(), mode)),
            statement_bytes: job.statement_bytes,
            message: job.message.to_owned(),
            author: job.author.clone(),
            timeout: job.timeout,
        });
        let mut ends = Ends { script: Some(script), ..Ends::default() };
        self.change(database, job.base, &call, job.timeout, &mut ends, Blame::Server, |head: &CommitHash| {
            Some(head.clone())
        })
    }

    fn changed_tables(
        &self,
        database: DatabaseId,
        from: &CommitHash,
        to: &CommitHash,
    ) -> Result<Vec<TableChange>, EngineError> {
        let engine = &self.options.engine;
        let limit = (4 * engine.diff_timeout + engine.count_timeout).max(LEAST);
        self.ask(database, &Call::ChangedTables { from: from.clone(), to: to.clone() }, limit)
    }

    fn changed_rows(
        &self,
        database: DatabaseId,
        from: &CommitHash,
        to: &CommitHash,
        table: &str,
        page: &RowPage,
    ) -> Result<ChangedRows, EngineError> {
        let (from, to, table) = (from.clone(), to.clone(), table.to_owned());
        let limit = (4 * self.options.engine.diff_timeout).max(LEAST);
        self.ask(database, &Call::ChangedRows { from, to, table, page: page.clone() }, limit)
    }

    fn tables(&self, database: DatabaseId, at: &CommitHash) -> Result<Vec<TableSchema>, EngineError> {
        self.ask(database, &Call::Tables { at: at.clone() }, (2 * self.options.engine.diff_timeout).max(LEAST))
    }

    fn objects(&self, database: DatabaseId, at: &CommitHash) -> Result<Vec<SchemaObject>, EngineError> {
        self.ask(database, &Call::Objects { at: at.clone() }, SHORT)
    }

    fn verify(&self, database: DatabaseId, heads: &[CommitHash]) -> Result<Vec<String>, EngineError> {
        if !self.files.path(database).exists() {
            return Ok(vec!["the file is missing".into()]);
        }
        let steps = u32::try_from(heads.len()).unwrap_or(u32::MAX).saturating_add(1);
        let limit = self.options.engine.verify_timeout.saturating_mul(steps).saturating_add(SHORT);
        let call = Call::Verify { heads: heads.to_vec() };
        self.call(database, Access::Write, &call, &within(limit), &mut Ends::default(), Blame::Server)
    }
}

fn head_of(outcome: &MergeOutcome) -> Option<CommitHash> {
    match outcome {
        MergeOutcome::Head(head) => Some(head.clone()),
        MergeOutcome::Conflicts(_) => None,
    }
}
