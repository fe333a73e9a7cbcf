//! The implementation of the engine port.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_domain::entities::{
    Commit, Conflict, LogEntry, LogPosition, SchemaObject, Signature, TableChange, TableSchema,
};
use branchyard_domain::ports::{
    BatchedWrite, ChangedRows, Chunk, Collected, ColumnQuery, ColumnValues, Engine, EngineError, HeldChunk,
    HistoryPage, HistoryPosition, HistoryQuery, ImportJob, KeptCommits, KeptHeads, MergeJob, MergeOutcome, PreviewJob,
    Previewed, PushedHistory, Reachability, ReadQuery, ReadReport, RecordedFormats, RowPage, RowSink, RowSource,
    RowTest, ScriptJob, Selected, Selection, SqliteExport, TableScan, WriteJob, Written, write_one_by_one,
};
use branchyard_domain::values::{ChunkHash, CommitHash, CommitPrefix, DatabaseId};

use super::{DoltliteEngine, io_fault};
use crate::diff::Comparison;
use crate::format::NEWEST_FORMAT;
use crate::reach::parents_of;
use crate::sql::{errors, shape};
use crate::{chunks, commits, merge_preview};

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
