//! The engine port.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_domain::entities::{
    Commit, Conflict, LogEntry, LogPosition, SchemaObject, Signature, TableChange, TableSchema,
};
use branchyard_domain::ports::{
    BatchedWrite, ChangedRows, Chunk, Collected, ColumnQuery, ColumnValues, Engine, EngineError, HeldChunk,
    HistoryPage, HistoryPosition, HistoryQuery, ImportJob, KeptCommits, KeptHeads, MergeJob, MergeOutcome, PreviewJob,
    Previewed, PushedHistory, Reachability, ReadQuery, ReadReport, RecordedFormats, RowPage, RowSink, RowSource,
    RowTest, ScriptJob, Selected, Selection, SqlFailure, SqliteExport, StartedRead, TableScan, WriteJob, Written,
};
use branchyard_domain::values::{ChunkHash, CommitHash, CommitPrefix, DatabaseId};
use branchyard_engine_doltlite::{
    COLLECTION_ROUNDS, CollectedHistory, CollectionSource, ConflictQuery, FileIdentity, HeadPair, NEWEST_FORMAT,
    io_fault,
};

use super::reads::Read;
use super::sinks::{CountedRows, NoRows};
use super::{Blame, COMMITTING, COPYING, HiddenReachability, LEAST, ProcessEngine, SHORT, UserRead, within};
use crate::call::{Bounds, Ends, Failed, Outcome};
use crate::history::{looked_up, reached};
use crate::messages::{Call, Import, Merge, Page, Script, Write, WriteOfBatch};
use crate::pool;
use crate::process::Access;

impl Engine for ProcessEngine {
    fn create(&self, database: DatabaseId, author: &Signature, message: &str) -> Result<CommitHash, EngineError> {
        let turn = self.queues.enter(database);
        let temporary = self.files.temporary();
        File::create_new(temporary.path()).map_err(|error| io_fault("create a database", error))?;
        let call = Call::Create { author: author.clone(), message: message.to_owned() };
        let head = self.in_file(database, &temporary, &call, SHORT)?;
        self.install(&turn, temporary.path())?;
        Ok(head)
    }

    fn copy(&self, from: DatabaseId, to: DatabaseId) -> Result<(), EngineError> {
        self.check_format(from)?;
        self.restore(to, &self.files.path(from))
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
        if !self.files.is_put_off(database) {
            return Ok(());
        }
        self.put_off.make(&self.files, database, |source, heads| {
            let source = CollectionSource::copy_of(&self.files, source, database, self.options.engine.share_blocks)?;
            let new = self.files.temporary();
            File::create_new(new.path()).map_err(|error| io_fault("create a new file", error))?;
            let into = open(new.path())?;
            let call = Call::Collect { heads: heads.to_vec() };
            let held: CollectedHistory = self.beside(database, (source.copy.path(), Access::Write), &into, &call)?;
            drop(into);
            self.in_file::<()>(database, &new, &Call::FinishCopy, SHORT)?;
            let call = Call::CheckNewFile { heads: heads.to_vec(), commits: Some(held.commits) };
            self.beside::<()>(database, (new.path(), Access::Read), &[], &call)?;
            Ok(new)
        })
    }

    fn outlived_sources(&self) -> Result<Vec<DatabaseId>, EngineError> {
        self.files.outlived_sources().map_err(|error| io_fault("list the copies that are put off", error))
    }

    fn keep_in_copies(&self, kept: Arc<dyn KeptCommits>) {
        self.put_off.keep(kept);
    }

    fn remove(&self, database: DatabaseId) -> Result<(), EngineError> {
        // What runs on the database ends now, so that the removal does not wait for it.
        self.pool.revoke(database);
        let turn = self.queues.enter(database);
        self.evict(database);
        let removed = self.put_off.remove(&self.files, database).map_err(|error| io_fault("remove a database", error));
        self.pool.revoke(database);
        self.evict(database);
        drop(turn);
        removed
    }

    fn collect(&self, database: DatabaseId, kept: &mut dyn KeptHeads) -> Result<Collected, EngineError> {
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
        kept.written(new.path())?;
        let turn = self.queues.enter(database);
        let before = source.length_now(&self.files, database)?;
        // Not all that was asked for: what the copy lacked may have been fetched since.
        let mut covered: BTreeSet<CommitHash> = held.heads.into_iter().collect();
        for _ in 0..COLLECTION_ROUNDS {
            let lacking = kept.approve(&covered)?;
            if lacking.is_empty() {
                let after = FileIdentity::of(new.path()).map_err(|error| io_fault("look at a new file", error))?.1;
                kept.install(new.path())?;
                self.pool.end_writers(database);
                self.install(&turn, new.path())?;
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

    fn reached(
        &self,
        database: DatabaseId,
        heads: &[CommitHash],
        commits: &[CommitHash],
    ) -> Result<Vec<bool>, EngineError> {
        reached(&self.ancestry, database, heads, commits, &mut |from, limit| {
            self.ask(database, &Call::Parents { from: from.clone(), limit }, SHORT)
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
        let mut parents = looked_up(&self.ancestry, database, |from: &CommitHash, limit| {
            self.ask(database, &Call::Parents { from: from.clone(), limit }, SHORT)
        });
        self.ancestry.with_prefix(database, heads, prefix, at_most, until, &mut parents)
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
        let mut parents = looked_up(&self.ancestry, database, |from: &CommitHash, limit| {
            self.ask(database, &Call::Parents { from: from.clone(), limit }, SHORT)
        });
        self.ancestry.ahead_behind(database, base, heads, at_most, until, &mut parents)
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

    fn chunks(
        &self,
        database: DatabaseId,
        hashes: &[ChunkHash],
        at_most: usize,
    ) -> Result<Vec<Option<Chunk>>, EngineError> {
        let chunks: Vec<Option<Chunk>> =
            self.ask(database, &Call::Chunks { hashes: hashes.to_vec(), at_most }, SHORT)?;
        // A worker is not trusted to return as many as were asked for.
        if chunks.len() > hashes.len() || (chunks.is_empty() && !hashes.is_empty()) {
            return Err(self.report(Failed::Broke("it returned a wrong number of chunks"), Blame::Server));
        }
        Ok(chunks)
    }

    fn held_chunks(&self, database: DatabaseId, hashes: &[ChunkHash]) -> Result<Vec<Option<HeldChunk>>, EngineError> {
        let held: Vec<Option<HeldChunk>> = self.ask(database, &Call::HeldChunks { hashes: hashes.to_vec() }, SHORT)?;
        if held.len() != hashes.len() {
            return Err(self.report(Failed::Broke("it returned a wrong number of chunks"), Blame::Server));
        }
        Ok(held)
    }

    fn examine_push(
        &self,
        database: DatabaseId,
        pushed: &File,
        tips: &[CommitHash],
    ) -> Result<PushedHistory, EngineError> {
        let (call, mut ends) = (Call::ExaminePush { tips: tips.to_vec() }, Ends::default());
        let (bounds, pushed) = (within(COPYING), [pushed.as_fd()]);
        self.call_with(database, Access::Read, &call, &pushed, &bounds, &mut ends, Blame::Server)
    }

    fn take_over_push(&self, database: DatabaseId, pushed: &File, tips: &[CommitHash]) -> Result<(), EngineError> {
        let (call, mut ends) = (Call::TakeOverPush { tips: tips.to_vec() }, Ends::default());
        let (bounds, pushed) = (within(COPYING), [pushed.as_fd()]);
        let turn = self.queues.enter(database);
        self.call_with::<()>(database, Access::Write, &call, &pushed, &bounds, &mut ends, Blame::Server)?;
        drop(turn);
        Ok(())
    }

    fn check_commit(
        &self,
        database: DatabaseId,
        commit: &CommitHash,
        trusted: Option<&CommitHash>,
        timeout: Duration,
    ) -> Result<Vec<String>, EngineError> {
        self.check_format(database)?;
        // A worker of its own: what it reads may take it over.
        let mut borrowed = self.pool.take_blank_for(&self.files.path(database), database, Access::Read, false)?;
        borrowed.worker().is_spent = true;
        let call = Call::CheckCommit { commit: commit.clone(), trusted: trusted.cloned(), timeout };
        let bounds = within(timeout.saturating_add(SHORT));
        let outcome: Outcome<Result<Vec<String>, EngineError>> =
            self.run(&mut borrowed, database, &call, &[], &bounds, &mut Ends::default());
        match outcome.result {
            Ok(result) => result,
            Err(failed @ (Failed::Ended | Failed::Broke(_) | Failed::Overdue(_))) => {
                tracing::error!(?failed, "a pushed commit broke the process that checked it");
                Ok(vec!["its content broke the process that checked it".to_owned()])
            }
            Err(failed) => Err(self.report(failed, Blame::Server)),
        }
    }

    fn read(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        query: &ReadQuery<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<ReadReport, EngineError> {
        self.run_read(Read::of(database, at, query), None, sink)
    }

    fn start_read(
        self: Arc<Self>,
        database: DatabaseId,
        at: &CommitHash,
        query: &ReadQuery<'_>,
    ) -> Option<Box<dyn StartedRead>> {
        self.start(database, at, query)
    }

    fn scan(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        scan: &TableScan<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Duration, EngineError> {
        let call = Call::Scan { at: at.clone(), table: scan.table.to_owned(), timeout: scan.timeout };
        let (timeout, canceled) = (scan.timeout, &scan.canceled);
        let read = UserRead { database, call: &call, timeout, canceled, blame: Blame::Server };
        self.stream(read, None, sink, Duration::ZERO)
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
            let (timeout, canceled) = (wanted.timeout, &wanted.canceled);
            self.stream(UserRead { database, call: &call, timeout, canceled, blame }, None, sink, Selected::default())
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

    fn column_values(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        query: &ColumnQuery<'_>,
    ) -> Result<ColumnValues, EngineError> {
        let call = Call::ColumnValues {
            at: at.clone(),
            table: query.table.to_owned(),
            column: query.column.to_owned(),
            tests: query.tests.to_vec(),
            rows: query.rows,
            limit: query.limit,
            timeout: query.timeout,
        };
        let (mut ends, blame) = (Ends::default(), Blame::Statement(query.table));
        self.call(database, Access::Read, &call, &within(query.timeout), &mut ends, blame)
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

    fn write_batch(
        &self,
        database: DatabaseId,
        base: &CommitHash,
        writes: &[BatchedWrite<'_>],
        at_most: Duration,
    ) -> Vec<Result<Written, EngineError>> {
        let limit = writes.iter().map(|write| write.timeout).max().unwrap_or_default();
        let of_batch = |write: &BatchedWrite<'_>| WriteOfBatch {
            statements: write.statements.to_owned(),
            message: write.message.to_owned(),
            author: write.author.clone(),
            timeout: write.timeout,
        };
        let call = Call::WriteBatch { base: base.clone(), writes: writes.iter().map(of_batch).collect(), at_most };
        // A batch that the worker does not survive did not happen: no ref names its commits.
        self.change_in_batch(database, base, &call, at_most + limit + COMMITTING, writes.len())
            .unwrap_or_else(|error| vec![Err(error)])
    }

    fn preview_write(&self, database: DatabaseId, job: &PreviewJob<'_>) -> Result<Previewed, EngineError> {
        self.preview(database, job)
    }

    fn merge(&self, database: DatabaseId, job: &MergeJob<'_>) -> Result<MergeOutcome, EngineError> {
        let call = Call::Merge(Merge {
            ours: job.ours.clone(),
            theirs: job.theirs.clone(),
            message: job.message.to_owned(),
            author: job.author.clone(),
            resolve: job.resolve.clone(),
            rows: job.rows.to_vec(),
            fast_forward: job.fast_forward,
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

    fn row_history(
        &self,
        database: DatabaseId,
        at: &HistoryPosition,
        wanted: &HistoryQuery<'_>,
    ) -> Result<HistoryPage, EngineError> {
        let (table, key) = (wanted.table.to_owned(), wanted.key.map(<[_]>::to_vec));
        let HistoryQuery { first_parents, limit, bytes, timeout, .. } = *wanted;
        let most = (4 * self.options.engine.diff_timeout).max(LEAST).saturating_add(timeout);
        let call = Call::RowHistory { at: at.clone(), table, key, first_parents, limit, bytes, timeout };
        self.ask(database, &call, most)
    }

    fn tables(&self, database: DatabaseId, at: &CommitHash) -> Result<Vec<TableSchema>, EngineError> {
        self.ask(database, &Call::Tables { at: at.clone() }, (2 * self.options.engine.diff_timeout).max(LEAST))
    }

    fn objects(&self, database: DatabaseId, at: &CommitHash) -> Result<Vec<SchemaObject>, EngineError> {
        self.ask(database, &Call::Objects { at: at.clone() }, SHORT)
    }

    fn export_sqlite(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        into: &File,
        job: &SqliteExport,
    ) -> Result<(), EngineError> {
        let call = Call::ExportSqlite { at: at.clone(), max_bytes: job.max_bytes, timeout: job.timeout };
        let bounds = Bounds { limit: job.timeout.saturating_add(SHORT), canceled: job.canceled.clone() };
        let (into, mut ends) = ([into.as_fd()], Ends::default());
        self.call_with(database, Access::Read, &call, &into, &bounds, &mut ends, Blame::Server)
    }

    fn scratch_folder(&self) -> PathBuf {
        self.files.temporary_folder()
    }

    fn verify(&self, database: DatabaseId, heads: &[CommitHash]) -> Result<Vec<String>, EngineError> {
        self.make_copy(database)?;
        if !self.files.path(database).exists() {
            return Ok(vec!["the file is missing".into()]);
        }
        let steps = u32::try_from(heads.len()).unwrap_or(u32::MAX).saturating_add(1);
        let limit = self.options.engine.verify_timeout.saturating_mul(steps).saturating_add(SHORT);
        let call = Call::Verify { heads: heads.to_vec() };
        self.call(database, Access::Write, &call, &within(limit), &mut Ends::default(), Blame::Server)
    }
}

/// Opens a file that is written anew, for a worker.
fn open(path: &Path) -> Result<Vec<File>, EngineError> {
    pool::open(path, Access::Write).map_err(|error| io_fault("open a file to collect", error))
}

pub(super) fn head_of(outcome: &MergeOutcome) -> Option<CommitHash> {
    match outcome {
        MergeOutcome::Head(head) => Some(head.clone()),
        MergeOutcome::Conflicts(_) => None,
    }
}
