//! The port: which calls write, and which read.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::entities::{
    Commit, Conflict, LogEntry, LogPosition, SchemaObject, Signature, TableChange, TableSchema,
};
use branchyard_domain::ports::{
    BatchedWrite, ChangedRows, Chunk, Collected, ColumnQuery, ColumnValues, Engine, EngineError, HeldChunk,
    HistoryPage, HistoryPosition, HistoryQuery, ImportJob, KeptCommits, KeptHeads, MergeJob, MergeOutcome, PreviewJob,
    Previewed, PushedHistory, Reachability, ReadQuery, ReadReport, RecordedFormats, RowPage, RowSink, RowSource,
    RowTest, ScriptJob, Selected, Selection, SqliteExport, StartedRead, TableScan, WriteJob, Written,
};
use branchyard_domain::values::{ChunkHash, CommitHash, CommitPrefix, DatabaseId};

use crate::collection::StoredCollection;
use crate::engine::{DurableEngine, RecordSource};

impl<S: RecordSource> Engine for DurableEngine<S> {
    fn create(&self, database: DatabaseId, author: &Signature, message: &str) -> Result<CommitHash, EngineError> {
        self.make(database, || self.inner().create(database, author, message))
    }

    fn copy(&self, from: DatabaseId, to: DatabaseId) -> Result<(), EngineError> {
        // The copy is to have what the refs of the source name now.
        self.catch_up(from)?;
        self.read(from, || self.make(to, || self.inner().copy(from, to)))
    }

    /// The row of the copy is added with its refs ([`RefRepository::copy_all`](branchyard_domain::ports::RefRepository::copy_all)).
    fn copy_later(&self, from: DatabaseId, _to: DatabaseId) -> Result<bool, EngineError> {
        self.make_ready(from)?;
        Ok(true)
    }

    fn is_put_off(&self, database: DatabaseId) -> bool {
        self.is_row_put_off(database).unwrap_or(false)
    }

    fn make_copy(&self, database: DatabaseId) -> Result<(), EngineError> {
        self.make_ready(database)
    }

    fn keep_in_copies(&self, kept: Arc<dyn KeptCommits>) {
        self.inner().keep_in_copies(kept);
    }

    fn remove(&self, database: DatabaseId) -> Result<(), EngineError> {
        self.remove_database(database)
    }

    fn collect(&self, database: DatabaseId, kept: &mut dyn KeptHeads) -> Result<Collected, EngineError> {
        let entry = self.leading_entry(database)?;
        let _call = entry.begin();
        let mut stored = StoredCollection::new(kept, &entry);
        match self.inner().collect(database, &mut stored) {
            Ok(collected) => Ok(collected),
            Err(error) => {
                stored.failed();
                Err(error)
            }
        }
    }

    fn list(&self) -> Result<Vec<DatabaseId>, EngineError> {
        self.inner().list()
    }

    fn owns_files(&self) -> bool {
        false
    }

    fn is_empty(&self) -> Result<bool, EngineError> {
        self.inner().is_empty()
    }

    fn newest_format(&self) -> u32 {
        self.inner().newest_format()
    }

    fn check_formats(&self, recorded: Arc<dyn RecordedFormats>) {
        self.inner().check_formats(recorded);
    }

    fn limit_history(&self, reachability: Arc<dyn Reachability>) {
        self.inner().limit_history(reachability);
    }

    fn needs_preparing(&self, database: DatabaseId) -> bool {
        self.inner().needs_preparing(database)
    }

    fn reached(
        &self,
        database: DatabaseId,
        heads: &[CommitHash],
        commits: &[CommitHash],
    ) -> Result<Vec<bool>, EngineError> {
        let is_whole = |reached: &Vec<bool>| reached.iter().all(|&is_reached| is_reached);
        self.read_whole(database, is_whole, || self.inner().reached(database, heads, commits))
    }

    fn fetch(&self, into: DatabaseId, from: DatabaseId, commit: &CommitHash) -> Result<(), EngineError> {
        self.fetch_at_leader(into, from, commit)
    }

    fn start_read(
        self: Arc<Self>,
        database: DatabaseId,
        at: &CommitHash,
        query: &ReadQuery<'_>,
    ) -> Option<Box<dyn StartedRead>> {
        if self.entry(database).has(at) { Arc::clone(self.inner()).start_read(database, at, query) } else { None }
    }

    fn write(&self, database: DatabaseId, job: &WriteJob<'_>) -> Result<Written, EngineError> {
        self.write(database, || self.inner().write(database, job))
    }

    fn write_batch(
        &self,
        database: DatabaseId,
        base: &CommitHash,
        writes: &[BatchedWrite<'_>],
        at_most: Duration,
    ) -> Vec<Result<Written, EngineError>> {
        self.write_several(database, || self.inner().write_batch(database, base, writes, at_most))
    }

    fn size_bytes(&self, database: DatabaseId) -> Result<u64, EngineError> {
        self.read(database, || self.inner().size_bytes(database))
    }

    fn format(&self, database: DatabaseId) -> Result<u32, EngineError> {
        self.read(database, || self.inner().format(database))
    }

    fn commit(&self, database: DatabaseId, hash: &CommitHash) -> Result<Option<Commit>, EngineError> {
        self.read_whole(database, Option::is_some, || self.inner().commit(database, hash))
    }

    fn is_ancestor(
        &self,
        database: DatabaseId,
        ancestor: &CommitHash,
        descendant: &CommitHash,
    ) -> Result<bool, EngineError> {
        self.read(database, || self.inner().is_ancestor(database, ancestor, descendant))
    }

    fn reached_with_prefix(
        &self,
        database: DatabaseId,
        heads: &[CommitHash],
        prefix: &CommitPrefix,
        at_most: usize,
        timeout: Duration,
    ) -> Result<Option<Vec<CommitHash>>, EngineError> {
        // Heads that the file lacks would be ignored.
        self.reached(database, heads, heads)?;
        self.read(database, || self.inner().reached_with_prefix(database, heads, prefix, at_most, timeout))
    }

    fn ahead_behind(
        &self,
        database: DatabaseId,
        base: &CommitHash,
        heads: &[CommitHash],
        at_most: usize,
        timeout: Duration,
    ) -> Result<Vec<Option<(usize, usize)>>, EngineError> {
        self.read(database, || self.inner().ahead_behind(database, base, heads, at_most, timeout))
    }

    fn merge_base(
        &self,
        database: DatabaseId,
        a: &CommitHash,
        b: &CommitHash,
    ) -> Result<Option<CommitHash>, EngineError> {
        self.read(database, || self.inner().merge_base(database, a, b))
    }

    fn log(&self, database: DatabaseId, at: &LogPosition, limit: usize) -> Result<Vec<LogEntry>, EngineError> {
        self.read(database, || self.inner().log(database, at, limit))
    }

    fn chunks(
        &self,
        database: DatabaseId,
        hashes: &[ChunkHash],
        at_most: usize,
    ) -> Result<Vec<Option<Chunk>>, EngineError> {
        let is_whole = |chunks: &Vec<Option<Chunk>>| chunks.iter().all(Option::is_some);
        self.read_whole(database, is_whole, || self.inner().chunks(database, hashes, at_most))
    }

    fn held_chunks(&self, database: DatabaseId, hashes: &[ChunkHash]) -> Result<Vec<Option<HeldChunk>>, EngineError> {
        let is_whole = |chunks: &Vec<Option<HeldChunk>>| chunks.iter().all(Option::is_some);
        self.read_whole(database, is_whole, || self.inner().held_chunks(database, hashes))
    }

    fn examine_push(
        &self,
        database: DatabaseId,
        pushed: &File,
        tips: &[CommitHash],
    ) -> Result<PushedHistory, EngineError> {
        self.read(database, || self.inner().examine_push(database, pushed, tips))
    }

    fn take_over_push(&self, database: DatabaseId, pushed: &File, tips: &[CommitHash]) -> Result<(), EngineError> {
        self.bring(database, || self.inner().take_over_push(database, pushed, tips))
    }

    fn check_commit(
        &self,
        database: DatabaseId,
        commit: &CommitHash,
        trusted: Option<&CommitHash>,
        timeout: Duration,
    ) -> Result<Vec<String>, EngineError> {
        self.read(database, || self.inner().check_commit(database, commit, trusted, timeout))
    }

    fn read(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        query: &ReadQuery<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<ReadReport, EngineError> {
        let read = self.read(database, || self.inner().read(database, at, query, sink))?;
        self.entry(database).note(at);
        Ok(read)
    }

    fn scan(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        scan: &TableScan<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Duration, EngineError> {
        self.read(database, || self.inner().scan(database, at, scan, sink))
    }

    fn rows(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        wanted: &Selection<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Selected, EngineError> {
        self.read(database, || self.inner().rows(database, at, wanted, sink))
    }

    fn count(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        table: &str,
        tests: &[RowTest],
        timeout: Duration,
    ) -> Result<u64, EngineError> {
        self.read(database, || self.inner().count(database, at, table, tests, timeout))
    }

    fn preview_write(&self, database: DatabaseId, job: &PreviewJob<'_>) -> Result<Previewed, EngineError> {
        self.preview(database, job)
    }

    fn column_values(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        query: &ColumnQuery<'_>,
    ) -> Result<ColumnValues, EngineError> {
        self.read(database, || self.inner().column_values(database, at, query))
    }

    fn merge(&self, database: DatabaseId, job: &MergeJob<'_>) -> Result<MergeOutcome, EngineError> {
        self.write(database, || self.inner().merge(database, job))
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
        self.read(database, || self.inner().conflicts(database, ours, theirs, table, skip, limit))
    }

    fn prepare_conflicts(
        &self,
        database: DatabaseId,
        ours: &CommitHash,
        theirs: &CommitHash,
    ) -> Result<(), EngineError> {
        self.read(database, || self.inner().prepare_conflicts(database, ours, theirs))
    }

    fn import(
        &self,
        database: DatabaseId,
        job: &ImportJob<'_>,
        rows: &mut dyn RowSource,
    ) -> Result<CommitHash, EngineError> {
        self.write(database, || self.inner().import(database, job, rows))
    }

    fn run_script(
        &self,
        database: DatabaseId,
        job: &ScriptJob<'_>,
        script: &mut dyn std::io::Read,
    ) -> Result<CommitHash, EngineError> {
        self.write(database, || self.inner().run_script(database, job, script))
    }

    fn changed_tables(
        &self,
        database: DatabaseId,
        from: &CommitHash,
        to: &CommitHash,
    ) -> Result<Vec<TableChange>, EngineError> {
        self.read(database, || self.inner().changed_tables(database, from, to))
    }

    fn changed_rows(
        &self,
        database: DatabaseId,
        from: &CommitHash,
        to: &CommitHash,
        table: &str,
        page: &RowPage,
    ) -> Result<ChangedRows, EngineError> {
        self.read(database, || self.inner().changed_rows(database, from, to, table, page))
    }

    fn row_history(
        &self,
        database: DatabaseId,
        at: &HistoryPosition,
        wanted: &HistoryQuery<'_>,
    ) -> Result<HistoryPage, EngineError> {
        self.read(database, || self.inner().row_history(database, at, wanted))
    }

    fn tables(&self, database: DatabaseId, at: &CommitHash) -> Result<Vec<TableSchema>, EngineError> {
        self.read(database, || self.inner().tables(database, at))
    }

    fn objects(&self, database: DatabaseId, at: &CommitHash) -> Result<Vec<SchemaObject>, EngineError> {
        self.read(database, || self.inner().objects(database, at))
    }

    fn export_sqlite(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        into: &File,
        job: &SqliteExport,
    ) -> Result<(), EngineError> {
        self.read(database, || {
            // A call that is made again begins again.
            into.set_len(0).map_err(|error| EngineError::Unavailable(format!("empty a temporary file: {error}")))?;
            self.inner().export_sqlite(database, at, into, job)
        })
    }

    fn scratch_folder(&self) -> PathBuf {
        self.inner().scratch_folder()
    }

    fn verify(&self, database: DatabaseId, heads: &[CommitHash]) -> Result<Vec<String>, EngineError> {
        self.read(database, || self.inner().verify(database, heads))
    }
}
