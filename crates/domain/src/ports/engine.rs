//! The engine port: immutable commits with their tables and history, one file per database.
//!
//! The engine does not know the branches and tags of users: every call names commits. A commit that no ref reaches is
//! garbage.

mod chunk;
mod collected_rows;
mod collection;
mod conditions;
mod errors;
mod files;
mod jobs;
mod preview;
mod reads;
mod row_history;
mod started;

pub use chunk::{Chunk, HeldChunk, PushedHistory};
pub use collected_rows::CollectedRows;
pub use collection::{Collected, KeptHeads};
pub use errors::{EngineError, SqlFailure};
pub use files::DatabaseFiles;
pub use jobs::{
    BatchedWrite, ImportColumn, ImportJob, ImportTarget, MergeJob, MergeOutcome, ScriptJob, SqliteExport, WriteJob,
    Written,
};
pub use preview::{PreviewJob, PreviewPlace, PreviewRefusal, Previewed, PreviewedTable, WritePreview};
pub use reads::{
    CancellationToken, ChangedRows, Column, ColumnQuery, ColumnValues, ReadQuery, ReadReport, RowOrder, RowPage,
    RowSink, RowTest, Selected, Selection, TableScan, Test, ValueRef,
};
pub use row_history::{HistoryChange, HistoryPage, HistoryPosition, HistoryQuery};
pub use started::StartedRead;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::formats::RowSource;
use crate::entities::{Commit, Conflict, LogEntry, LogPosition, SchemaObject, Signature, TableChange, TableSchema};
use crate::values::{ChunkHash, CommitHash, CommitPrefix, DatabaseId};

/// The rule that decides which commits a database shows. Its file may hold more commits: those of deleted branches,
/// of fetches for pull requests, and those that a fork copied. These are treated as absent.
pub trait Reachability: Send + Sync {
    /// Returns `true` if a branch, tag, release or pull request of the database refers to `commit` or to one of its
    /// descendants. `descends` returns `true` if one of its arguments is `commit` or a descendant of `commit`.
    ///
    /// # Errors
    /// [`EngineError`] if the look-up fails.
    fn reaches(
        &self,
        database: DatabaseId,
        commit: &CommitHash,
        descends: &mut dyn FnMut(&[CommitHash]) -> Result<bool, EngineError>,
    ) -> Result<bool, EngineError>;
}

/// The commits that databases have to keep, as the owner of their refs knows them.
pub trait KeptCommits: Send + Sync {
    /// Returns the commits that a database has to keep; everything they reach stays too.
    ///
    /// # Errors
    /// [`EngineError`] if the look-up fails.
    fn kept(&self, database: DatabaseId) -> Result<Vec<CommitHash>, EngineError>;

    /// Called after the engine has made the file of a database whose copy was put off ([`Engine::copy_later`]).
    fn made(&self, database: DatabaseId) {
        let _ = database;
    }
}

/// The formats of database files, as recorded when the files were written.
pub trait RecordedFormats: Send + Sync {
    /// Returns the recorded format of the file of a database, or `None` if there is no record of the database.
    ///
    /// # Errors
    /// [`EngineError`] if the look-up fails.
    fn recorded(&self, database: DatabaseId) -> Result<Option<u32>, EngineError>;
}

/// A store of commits that runs SQL on them.
///
/// Calls may run concurrently. Writes to one database are queued in order of arrival.
pub trait Engine: Send + Sync {
    /// Creates the file of a new database with one empty commit. Replaces an existing file.
    ///
    /// # Errors
    /// [`EngineError`].
    fn create(&self, database: DatabaseId, author: &Signature, message: &str) -> Result<CommitHash, EngineError>;

    /// Copies a database with its whole history, even while it is written to. Replaces an existing copy.
    ///
    /// # Errors
    /// [`EngineError`].
    fn copy(&self, from: DatabaseId, to: DatabaseId) -> Result<(), EngineError>;

    /// Copies a database as [`Engine::copy`] does, but puts off the work where it can, so that the call takes the same time for any
    /// size. Before the first call that uses a copy that was put off, the engine makes its file of what [`KeptCommits`] says: nothing
    /// else of the source can ever be read from it. Later changes of the source, its removal too, do not matter to the copy. Returns
    /// `false` if the source was copied at once, with everything in its file.
    ///
    /// An engine whose files are copies of a store shares what is in the store in the transaction that copies the refs
    /// ([`RefRepository::copy_all`](super::RefRepository::copy_all)).
    ///
    /// # Errors
    /// [`EngineError`].
    fn copy_later(&self, from: DatabaseId, to: DatabaseId) -> Result<bool, EngineError> {
        self.copy(from, to)?;
        Ok(false)
    }

    /// Returns `true` if the copy of a database was put off ([`Engine::copy_later`]) and its file is not made yet.
    fn is_put_off(&self, database: DatabaseId) -> bool {
        let _ = database;
        false
    }

    /// Makes the file of a database if its copy was put off. While one call does so, others wait for it for at most half a minute.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] if there is no space for it, or if it takes longer than the caller can wait.
    fn make_copy(&self, database: DatabaseId) -> Result<(), EngineError> {
        let _ = database;
        Ok(())
    }

    /// Lists the databases whose copy was put off and that alone keep the former file of a database that was removed or collected
    /// since.
    ///
    /// # Errors
    /// [`EngineError`].
    fn outlived_sources(&self) -> Result<Vec<DatabaseId>, EngineError> {
        Ok(Vec::new())
    }

    /// Sets what copies that are put off keep. Before this call, no copy is put off. Only the first call has an effect.
    fn keep_in_copies(&self, kept: Arc<dyn KeptCommits>) {
        drop(kept);
    }

    /// Removes a database. Does nothing if there is none.
    ///
    /// # Errors
    /// [`EngineError`].
    fn remove(&self, database: DatabaseId) -> Result<(), EngineError>;

    /// Removes the commits that no kept head reaches, and everything else that the file no longer needs, by writing a
    /// new file that takes the place of the old one. Commits that are made meanwhile are brought over in the write turn
    /// of the database, if `kept` names them then. Calls that read the old file go on; calls that write to it in several
    /// steps fail, and may be made again. If the call fails, nothing was removed.
    ///
    /// # Errors
    /// The errors of `kept`; [`EngineError::Unavailable`] if there is no space for a copy of the file, or the file was
    /// replaced meanwhile; [`EngineError::Busy`] if the heads keep changing.
    fn collect(&self, database: DatabaseId, kept: &mut dyn KeptHeads) -> Result<Collected, EngineError>;

    /// Lists the databases that have a file.
    ///
    /// # Errors
    /// [`EngineError`].
    fn list(&self) -> Result<Vec<DatabaseId>, EngineError>;

    /// Returns `true` if the files are used by this process alone, so that a file of an unknown database is garbage of a crash. The
    /// files of nodes that share a store are caches: another node may be adding the database.
    fn owns_files(&self) -> bool {
        true
    }

    /// Returns `true` if no database has a file.
    ///
    /// # Errors
    /// [`EngineError`].
    fn is_empty(&self) -> Result<bool, EngineError> {
        Ok(self.list()?.is_empty())
    }

    /// Returns the size of the file in bytes.
    ///
    /// # Errors
    /// [`EngineError`].
    fn size_bytes(&self, database: DatabaseId) -> Result<u64, EngineError>;

    /// Returns the newest format of files that the engine opens. It writes files in this format.
    fn newest_format(&self) -> u32;

    /// Returns the format of the file, also if the engine does not open it.
    ///
    /// # Errors
    /// [`EngineError`].
    fn format(&self, database: DatabaseId) -> Result<u32, EngineError>;

    /// Makes the engine compare the recorded format with those that it knows before it opens a file. If the recorded
    /// format is newer, calls fail with [`EngineError::UnknownFormat`], as they do if that of the file itself is. Only
    /// the first call has an effect.
    fn check_formats(&self, recorded: Arc<dyn RecordedFormats>);

    /// Reads a commit. Returns `None` if the commit is not in the file.
    ///
    /// # Errors
    /// [`EngineError`].
    fn commit(&self, database: DatabaseId, hash: &CommitHash) -> Result<Option<Commit>, EngineError>;

    /// Returns `true` if `ancestor` is `descendant` or one of its ancestors.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`] if `descendant` is not in the file.
    fn is_ancestor(
        &self,
        database: DatabaseId,
        ancestor: &CommitHash,
        descendant: &CommitHash,
    ) -> Result<bool, EngineError>;

    /// Returns for each of `commits` whether one of `heads` is it or descends from it. Heads that are not in the file are ignored.
    ///
    /// # Errors
    /// [`EngineError`].
    fn reached(
        &self,
        database: DatabaseId,
        heads: &[CommitHash],
        commits: &[CommitHash],
    ) -> Result<Vec<bool>, EngineError> {
        let is_reached = |commit: &CommitHash| {
            for head in heads {
                match self.is_ancestor(database, commit, head) {
                    Ok(false) | Err(EngineError::NoSuchCommit(_)) => {}
                    other => return other,
                }
            }
            Ok(false)
        };
        commits.iter().map(is_reached).collect()
    }

    /// Returns `true` if one of `heads` is `commit` or descends from it. Heads that are not in the file are ignored.
    ///
    /// # Errors
    /// [`EngineError`].
    fn descends(&self, database: DatabaseId, heads: &[CommitHash], commit: &CommitHash) -> Result<bool, EngineError> {
        Ok(self.reached(database, heads, std::slice::from_ref(commit))? == [true])
    }

    /// Returns the commits that begin with these digits among `heads` and their ancestors, at most `at_most` of them in no particular
    /// order. Heads that are not in the file are ignored. Returns `None` if not all could be looked at within `timeout`; a later call
    /// gets further.
    ///
    /// # Errors
    /// [`EngineError`].
    fn reached_with_prefix(
        &self,
        database: DatabaseId,
        heads: &[CommitHash],
        prefix: &CommitPrefix,
        at_most: usize,
        timeout: Duration,
    ) -> Result<Option<Vec<CommitHash>>, EngineError>;

    /// Returns for each of `heads` how many commits it reaches that `base` does not, and the other way round, each counted up to
    /// `at_most` + 1. Returns `None` for those that are not counted within `timeout`. Commits that are not in the file reach nothing.
    ///
    /// # Errors
    /// [`EngineError`].
    fn ahead_behind(
        &self,
        database: DatabaseId,
        base: &CommitHash,
        heads: &[CommitHash],
        at_most: usize,
        timeout: Duration,
    ) -> Result<Vec<Option<(usize, usize)>>, EngineError>;

    /// Restricts the commits that users' statements find by hash to the ancestors of the commit they run at and the
    /// commits that `reachability` shows. Before this call, statements find every commit in the file. Only the first
    /// call has an effect.
    fn limit_history(&self, reachability: Arc<dyn Reachability>);

    /// Returns the best common ancestor.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`].
    fn merge_base(
        &self,
        database: DatabaseId,
        a: &CommitHash,
        b: &CommitHash,
    ) -> Result<Option<CommitHash>, EngineError>;

    /// Lists commits of a history from a position on: children before parents, then newest first. The duration
    /// depends on `limit` and on the number of commits between the two ends of the position, not on the distance from
    /// the head.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`].
    fn log(&self, database: DatabaseId, at: &LogPosition, limit: usize) -> Result<Vec<LogEntry>, EngineError>;

    /// Fetches a commit with its history from one database into another. Does nothing if the commit is already there.
    ///
    /// Never waits for writers of the source. Shares the write queue of the target with its writers, step by step,
    /// and may spend a while copying the source file. Unsuitable for callers that need an immediate answer.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`] if the source does not have the commit.
    fn fetch(&self, into: DatabaseId, from: DatabaseId, commit: &CommitHash) -> Result<(), EngineError>;

    /// Returns chunks in the order of `hashes`, `None` for each that the file does not hold. Begins with the first hash, and stops
    /// before the chunks are longer than `at_most` bytes together, but not before the first one.
    ///
    /// The file holds more chunks than the database shows. They include commits of its deleted branches, for example.
    ///
    /// # Errors
    /// [`EngineError`].
    fn chunks(
        &self,
        database: DatabaseId,
        hashes: &[ChunkHash],
        at_most: usize,
    ) -> Result<Vec<Option<Chunk>>, EngineError>;

    /// Returns what the file holds of `hashes`, in their order, `None` for each chunk that it does not hold.
    ///
    /// # Errors
    /// [`EngineError`].
    fn held_chunks(&self, database: DatabaseId, hashes: &[ChunkHash]) -> Result<Vec<Option<HeldChunk>>, EngineError>;

    /// Follows what the commits `tips` name through pushed chunks, a file as [`PushedChunks::open`](super::PushedChunks::open) describes it, up
    /// to chunks that the file of the database holds. Changes nothing.
    ///
    /// # Errors
    /// [`EngineError`].
    fn examine_push(
        &self,
        database: DatabaseId,
        pushed: &File,
        tips: &[CommitHash],
    ) -> Result<PushedHistory, EngineError>;

    /// Adds the pushed chunks of the commits `tips` and of what is below them to the file of the database, durably, all or none of
    /// them. Until a ref names the commits, they are garbage.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`] if [`Engine::examine_push`] would not find them complete.
    fn take_over_push(&self, database: DatabaseId, pushed: &File, tips: &[CommitHash]) -> Result<(), EngineError>;

    /// Checks the content of a commit that comes from outside: that its tables, views, indexes and triggers are ones that a write
    /// may create, that all rows can be counted, and that each index fits its table. Tables that are the same in `trusted` are not
    /// checked again. Returns the problems found, worded for the one who brought the commit. A check that does not end in time or
    /// that ends the process it runs in is a problem, too.
    ///
    /// # Errors
    /// [`EngineError`] if the check itself cannot run.
    fn check_commit(
        &self,
        database: DatabaseId,
        commit: &CommitHash,
        trusted: Option<&CommitHash>,
        timeout: Duration,
    ) -> Result<Vec<String>, EngineError>;

    /// Runs one untrusted read statement at a commit.
    ///
    /// # Errors
    /// [`EngineError::Sql`] if the statement fails.
    fn read(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        query: &ReadQuery<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<ReadReport, EngineError>;

    /// Starts a read like [`Engine::read`] if it can compute outside this process at once. Returns `None` if it cannot, or if
    /// statements like it were slow recently. Never blocks.
    fn start_read(
        self: Arc<Self>,
        database: DatabaseId,
        at: &CommitHash,
        query: &ReadQuery<'_>,
    ) -> Option<Box<dyn StartedRead>> {
        let _ = (database, at, query);
        None
    }

    /// Sends all rows of a table at a commit to the sink, by primary key, or by row id if there is no key. Returns
    /// the time left of the limit.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`], for views too; [`EngineError::TimedOut`].
    fn scan(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        scan: &TableScan<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Duration, EngineError>;

    /// Sends a page of rows of a table or view at a commit to the sink, and returns the cursors of the page.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`]; [`EngineError::Sql`] if the query of a view fails, the time limit is exceeded,
    /// or the cursor does not belong to this order.
    fn rows(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        wanted: &Selection<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Selected, EngineError>;

    /// Counts the rows of a table or view that satisfy all conditions at a commit.
    ///
    /// # Errors
    /// As [`Engine::rows`].
    fn count(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        table: &str,
        tests: &[RowTest],
        timeout: Duration,
    ) -> Result<u64, EngineError>;

    /// Returns the most frequent values of a column of a table or view at a commit.
    ///
    /// # Errors
    /// As [`Engine::rows`].
    fn column_values(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        query: &ColumnQuery<'_>,
    ) -> Result<ColumnValues, EngineError>;

    /// Runs untrusted statements on a commit as one commit and then merges, atomically.
    ///
    /// # Errors
    /// [`EngineError::Sql`] if a statement fails.
    fn write(&self, database: DatabaseId, job: &WriteJob<'_>) -> Result<Written, EngineError>;

    /// Runs writes one after the other, each as a commit on the one before and durably, the first on `base`. Ends behind
    /// the first one that fails; after the time `at_most` no further one begins. Returns the results of those that ran.
    fn write_batch(
        &self,
        database: DatabaseId,
        base: &CommitHash,
        writes: &[BatchedWrite<'_>],
        at_most: Duration,
    ) -> Vec<Result<Written, EngineError>> {
        write_one_by_one(base, writes, at_most, |job| self.write(database, job))
    }

    /// Runs untrusted statements on a commit as [`Engine::write`] does, returns what they change, and undoes it: no commit is made, and
    /// no content stays in the file.
    ///
    /// # Errors
    /// [`EngineError::Sql`] if a statement fails; [`EngineError::Busy`] if the write turn does not come in time.
    fn preview_write(&self, database: DatabaseId, job: &PreviewJob<'_>) -> Result<Previewed, EngineError>;

    /// Merges two commits of the file, atomically.
    ///
    /// # Errors
    /// [`EngineError`].
    fn merge(&self, database: DatabaseId, job: &MergeJob<'_>) -> Result<MergeOutcome, EngineError>;

    /// Lists the conflicts of a merge of two commits, in `table` or in all tables, by table and primary key. Skips
    /// `skip` conflicts and returns at most `limit`. Changes nothing and never waits for writers.
    ///
    /// # Errors
    /// [`EngineError::Busy`] if too many calls run at once, or if computing the conflicts takes too long for a
    /// waiting caller. In the latter case [`Engine::prepare_conflicts`] computes and caches them.
    fn conflicts(
        &self,
        database: DatabaseId,
        ours: &CommitHash,
        theirs: &CommitHash,
        table: Option<&str>,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<Conflict>, EngineError>;

    /// Returns `true` if [`Engine::conflicts`] returns [`EngineError::Busy`] for this database unless
    /// [`Engine::prepare_conflicts`] has cached the result. Cheap.
    fn needs_preparing(&self, database: DatabaseId) -> bool;

    /// Computes the result of [`Engine::conflicts`] for two commits, however long that takes, and caches it for a
    /// while. Also caches the pages that callers requested in vain for these commits. Meant for background jobs on
    /// databases for which [`Engine::needs_preparing`] returns `true`: when a head of a pull request moves, and after
    /// `conflicts` returned [`EngineError::Busy`], because the cache may evict the result.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`]. Commits that cannot be merged are not an error here; [`Engine::conflicts`]
    /// reports them.
    fn prepare_conflicts(
        &self,
        database: DatabaseId,
        ours: &CommitHash,
        theirs: &CommitHash,
    ) -> Result<(), EngineError>;

    /// Imports rows into a table as one commit, atomically. Returns the new head, which equals the base if nothing
    /// changed.
    ///
    /// # Errors
    /// [`EngineError::Import`] with the invalid rows.
    fn import(
        &self,
        database: DatabaseId,
        job: &ImportJob<'_>,
        rows: &mut dyn RowSource,
    ) -> Result<CommitHash, EngineError>;

    /// Runs a script as one commit, atomically, while reading it as a stream. Its statements are restricted as in
    /// [`Engine::write`]. Returns the new head, which equals the base if nothing changed.
    ///
    /// # Errors
    /// [`EngineError::Import`] with the first line of the failed statement and the text of its [`SqlFailure`];
    /// [`EngineError::TableExists`]; [`EngineError::NoSuchTable`].
    fn run_script(
        &self,
        database: DatabaseId,
        job: &ScriptJob<'_>,
        script: &mut dyn std::io::Read,
    ) -> Result<CommitHash, EngineError>;

    /// Lists the tables and views that differ between two commits, by name. Differences in indexes and triggers
    /// count.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`].
    fn changed_tables(
        &self,
        database: DatabaseId,
        from: &CommitHash,
        to: &CommitHash,
    ) -> Result<Vec<TableChange>, EngineError>;

    /// Returns a page of the rows of one table that differ between two commits, by primary key.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTable`] if neither commit has the table.
    fn changed_rows(
        &self,
        database: DatabaseId,
        from: &CommitHash,
        to: &CommitHash,
        table: &str,
        page: &RowPage,
    ) -> Result<ChangedRows, EngineError>;

    /// Returns a page of the history of a row, or of all rows of a table, from a position on. The table is one of the commit at
    /// which the history begins. The duration is bounded by the time limit of the query, the comparison of one commit with its
    /// parents, and the rows of the page.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`]; [`EngineError::NoSuchTable`] if the commit has no such table, or the key is not its primary
    /// key.
    fn row_history(
        &self,
        database: DatabaseId,
        at: &HistoryPosition,
        wanted: &HistoryQuery<'_>,
    ) -> Result<HistoryPage, EngineError>;

    /// Lists the user's tables and views at a commit, by name.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`].
    fn tables(&self, database: DatabaseId, at: &CommitHash) -> Result<Vec<TableSchema>, EngineError>;

    /// Lists the user's indexes, triggers and views at a commit. Reads definitions only, never rows. Omits indexes
    /// created by table constraints and the objects of tables that belong to a virtual table.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`].
    fn objects(&self, database: DatabaseId, at: &CommitHash) -> Result<Vec<SchemaObject>, EngineError>;

    /// Writes the tables at a commit to the empty file `into`, as a SQLite 3 file: rows, indexes, views and triggers. Nothing else
    /// of the database is in the file, neither its history nor the engine's own tables. If the call fails, the file is of no use.
    ///
    /// # Errors
    /// [`EngineError::Sql`] if the file would exceed its limit; [`EngineError::TimedOut`].
    fn export_sqlite(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        into: &File,
        job: &SqliteExport,
    ) -> Result<(), EngineError>;

    /// Returns the folder for temporary files, on the file system of the databases. It is emptied when the program starts.
    fn scratch_folder(&self) -> PathBuf;

    /// Checks the file and that each of `heads` is readable. Returns the problems found, worded for the operator.
    ///
    /// # Errors
    /// [`EngineError`] if the check itself cannot run.
    fn verify(&self, database: DatabaseId, heads: &[CommitHash]) -> Result<Vec<String>, EngineError>;
}

/// Runs writes one after the other, as [`Engine::write_batch`] does.
pub fn write_one_by_one(
    base: &CommitHash,
    writes: &[BatchedWrite<'_>],
    at_most: Duration,
    mut run: impl FnMut(&WriteJob<'_>) -> Result<Written, EngineError>,
) -> Vec<Result<Written, EngineError>> {
    let (began, mut base, mut results) = (Instant::now(), base.clone(), Vec::with_capacity(writes.len()));
    for write in writes {
        if !results.is_empty() && began.elapsed() >= at_most {
            break;
        }
        let BatchedWrite { statements, message, author, timeout } = *write;
        let result = run(&WriteJob { base: &base, statements, message, then_merge: None, author, timeout });
        let goes_on = match &result {
            Ok(Written { outcome: MergeOutcome::Head(head), .. }) => {
                base = head.clone();
                true
            }
            Ok(Written { outcome: MergeOutcome::Conflicts(_), .. }) | Err(_) => false,
        };
        results.push(result);
        if !goes_on {
            break;
        }
    }
    results
}
