//! The in-memory engine: a commit graph per database, in which each commit holds all of its tables.
//!
//! Hashes are derived from content, so the same steps at the same time produce the same commits. The engine supports
//! exactly this SQL:
//!
//! ```text
//! CREATE TABLE t (column declaration, ...)          NOT NULL and PRIMARY KEY on a column are enforced
//! CREATE TRIGGER name ... ON t ... END              stored, never run
//! DROP TRIGGER name
//! INSERT INTO t [(columns)] VALUES (literals), ...
//! UPDATE t SET column = literal, ... WHERE column = literal
//! DELETE FROM t WHERE column = literal
//! SELECT columns | * | count(*) FROM t [WHERE column = literal] [ORDER BY column]
//! ```
//!
//! Literals are integers, reals, 'text' and NULL. Statements are separated by `;`. There are no views, indexes or
//! foreign keys.

mod browse;
mod commits;
mod diff;
mod merge;
mod row_history;
mod rows;
mod script;
mod sql;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom, Write as _};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::FakeFault;
use branchyard_domain::entities::{
    Commit, Conflict, LogEntry, LogPosition, LogWalk, SchemaObject, Signature, TableChange, TableSchema,
};
use branchyard_domain::ports::{
    ChangedRows, Chunk, Collected, Column, ColumnQuery, ColumnValues, Engine, EngineError, HeldChunk, HistoryPage,
    HistoryPosition, HistoryQuery, ImportJob, KeptHeads, MergeJob, MergeOutcome, PreviewJob, PreviewRefusal, Previewed,
    PreviewedTable, PushedHistory, ReadQuery, ReadReport, RowPage, RowSink, RowSource, RowTest, ScriptJob, Selected,
    Selection, SqlFailure, SqliteExport, TableScan, ValueRef, WriteJob, WritePreview, Written,
};
use branchyard_domain::values::{ChunkHash, CommitHash, CommitPrefix, DatabaseId};
use commits::CommitGraph;
pub use commits::SAME_DIGITS;
use table::Snapshot;

type Result<T> = std::result::Result<T, EngineError>;
/// The format of the files of this engine.
const FORMAT: u32 = 1;
/// How often a collection asks again for the heads to keep.
const COLLECTION_ROUNDS: usize = 8;

type MeanwhileAction = Box<dyn FnOnce() + Send>;

/// An in-memory engine.
#[derive(Default)]
pub struct MemoryEngine {
    files: Mutex<BTreeMap<DatabaseId, CommitGraph>>,
    meanwhile: Mutex<Option<MeanwhileAction>>,
    scans: Mutex<Scans>,
    holds: Mutex<Holds>,
    /// Time that each write takes of its limit.
    writes_take: Mutex<Duration>,
    holds_changed: Condvar,
    /// The pairs of commits whose conflicts were prepared. `None` if conflicts need no preparation.
    prepared: Mutex<Option<BTreeSet<(DatabaseId, CommitHash, CommitHash)>>>,
    /// The files whose format is not [`FORMAT`].
    formats: Mutex<BTreeMap<DatabaseId, u32>>,
}

/// Writes that a test holds back.
#[derive(Default)]
struct Holds {
    databases: BTreeSet<DatabaseId>,
    waiting: usize,
}

/// Planned behavior of scans.
#[derive(Default)]
struct Scans {
    /// Time that each scan takes of its limit.
    take: Duration,
    /// Number of rows after which scans fail.
    breaks_after: Option<usize>,
}

impl std::fmt::Debug for MemoryEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryEngine").finish_non_exhaustive()
    }
}

impl MemoryEngine {
    /// Runs `happens` in the middle of the next write, merge, fetch, import, script, copy or collection, to simulate a concurrent
    /// caller.
    pub fn meanwhile(&self, happens: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock() = Some(Box::new(happens));
    }

    /// Adds bytes to the file of a database that no commit needs. A collection removes them.
    pub fn pad(&self, database: DatabaseId, bytes: u64) {
        if let Some(history) = self.files.lock().get_mut(&database) {
            history.pad(bytes);
        }
    }

    /// Sets the format of the file of a database. Files with a newer format than 1 are not opened.
    pub fn set_format(&self, database: DatabaseId, format: u32) {
        self.formats.lock().insert(database, format);
    }

    fn refuse_newer(&self, database: DatabaseId) -> Result<()> {
        match self.formats.lock().get(&database) {
            Some(found) if *found > FORMAT => Err(EngineError::UnknownFormat { found: *found, newest: FORMAT }),
            _ => Ok(()),
        }
    }

    /// Requires conflicts to be prepared in the background from now on.
    pub fn prepare_first(&self) {
        *self.prepared.lock() = Some(BTreeSet::new());
    }

    /// Sets the time that every scan takes from now on.
    pub fn scans_take(&self, time: Duration) {
        self.scans.lock().take = time;
    }

    /// Sets the time that the statements of every write take from now on.
    pub fn writes_take(&self, time: Duration) {
        *self.writes_take.lock() = time;
    }

    /// Makes every scan with more than `rows` rows fail after `rows` rows from now on.
    pub fn scans_break_after(&self, rows: usize) {
        self.scans.lock().breaks_after = Some(rows);
    }

    /// Holds writes to these databases, and releases writes to all others.
    pub fn hold_writes(&self, databases: &[DatabaseId]) {
        self.holds.lock().databases = databases.iter().copied().collect();
        self.holds_changed.notify_all();
    }

    /// Waits up to `at_most` until `count` writes are held. Returns how many are held.
    pub fn wait_for_held_writes(&self, count: usize, at_most: Duration) -> usize {
        let mut holds = self.holds.lock();
        self.holds_changed.wait_while_for(&mut holds, |holds| holds.waiting < count, at_most);
        holds.waiting
    }

    fn wait_while_held(&self, database: DatabaseId) {
        let mut holds = self.holds.lock();
        holds.waiting += 1;
        self.holds_changed.notify_all();
        self.holds_changed.wait_while(&mut holds, |holds| holds.databases.contains(&database));
        holds.waiting -= 1;
    }

    fn let_happen(&self) {
        let hook = self.meanwhile.lock().take();
        if let Some(hook) = hook {
            hook();
        }
    }

    /// Reads the commits of a database.
    fn look<T>(&self, database: DatabaseId, look: impl FnOnce(&CommitGraph) -> Result<T>) -> Result<T> {
        self.refuse_newer(database)?;
        look(self.files.lock().get(&database).ok_or_else(no_file)?)
    }

    /// Changes the commits of a database.
    fn change<T>(&self, database: DatabaseId, change: impl FnOnce(&mut CommitGraph) -> Result<T>) -> Result<T> {
        self.refuse_newer(database)?;
        change(self.files.lock().get_mut(&database).ok_or_else(no_file)?)
    }
}

/// Fails if there is no time left. Calls of this engine take no time themselves.
fn not_over(timeout: Duration) -> Result<()> {
    if timeout.is_zero() { Err(EngineError::TimedOut(0)) } else { Ok(()) }
}

/// A sink that fails after a number of rows.
struct Breaking<'a> {
    sink: &'a mut dyn RowSink,
    rows_left: usize,
    broken: bool,
}

impl RowSink for Breaking<'_> {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        self.sink.columns(columns)
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        match self.rows_left.checked_sub(1) {
            Some(left) => {
                self.rows_left = left;
                self.sink.row(row)
            }
            None => {
                self.broken = true;
                ControlFlow::Break(())
            }
        }
    }
}

/// Returns the hashes of the chunks of a file.
fn pushed_hashes(mut file: &File) -> Result<BTreeSet<CommitHash>> {
    let fault = |error| EngineError::Fault { context: "read pushed chunks".to_owned(), source: Box::new(error) };
    let (mut bytes, mut hashes) = (Vec::new(), BTreeSet::new());
    file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes)).map_err(fault)?;
    let mut rest = &bytes[..];
    while let Some((hash, after)) = rest.split_first_chunk::<20>() {
        let Some((length, content)) = after.split_first_chunk::<4>() else { break };
        hashes.insert(ChunkHash::from_bytes(*hash).as_commit());
        rest = content.get(u32::from_le_bytes(*length) as usize..).unwrap_or_default();
    }
    Ok(hashes)
}

fn no_file() -> EngineError {
    EngineError::Fault { context: "open a database".to_owned(), source: Box::new(FakeFault("there is no such file")) }
}

impl Engine for MemoryEngine {
    fn create(&self, database: DatabaseId, author: &Signature, message: &str) -> Result<CommitHash> {
        let mut history = CommitGraph::default();
        let head = history.add(Vec::new(), message, author, Arc::new(Snapshot::default()));
        self.files.lock().insert(database, history);
        Ok(head)
    }

    fn copy(&self, from: DatabaseId, to: DatabaseId) -> Result<()> {
        let copy = self.look(from, |history| Ok(history.clone()))?;
        self.let_happen();
        self.files.lock().insert(to, copy);
        Ok(())
    }

    fn remove(&self, database: DatabaseId) -> Result<()> {
        self.files.lock().remove(&database);
        Ok(())
    }

    fn collect(&self, database: DatabaseId, kept: &mut dyn KeptHeads) -> Result<Collected> {
        let heads = kept.heads()?;
        let mut collected = self.look(database, |history| Ok(history.only(&heads)))?;
        self.let_happen();
        let mut covered: BTreeSet<CommitHash> = heads.into_iter().collect();
        for _ in 0..COLLECTION_ROUNDS {
            let lacking = kept.approve(&covered)?;
            if lacking.is_empty() {
                return self.change(database, |history| {
                    let before = history.size_bytes();
                    *history = collected;
                    Ok(Collected { before, after: history.size_bytes() })
                });
            }
            collected.take_in(self.look(database, |history| Ok(history.only(&lacking)))?);
            covered.extend(lacking);
        }
        Err(EngineError::Busy)
    }

    fn list(&self) -> Result<Vec<DatabaseId>> {
        Ok(self.files.lock().keys().copied().collect())
    }

    fn size_bytes(&self, database: DatabaseId) -> Result<u64> {
        self.look(database, |history| Ok(history.size_bytes()))
    }

    fn newest_format(&self) -> u32 {
        FORMAT
    }

    fn format(&self, database: DatabaseId) -> Result<u32> {
        if !self.files.lock().contains_key(&database) {
            return Err(no_file());
        }
        Ok(self.formats.lock().get(&database).copied().unwrap_or(FORMAT))
    }

    /// Does nothing: a look-up could wait for the transaction of the caller, because the store in memory admits one at a
    /// time.
    fn check_formats(&self, _: Arc<dyn branchyard_domain::ports::RecordedFormats>) {}

    fn commit(&self, database: DatabaseId, hash: &CommitHash) -> Result<Option<Commit>> {
        self.look(database, |history| Ok(history.get(hash).ok().map(|stored| stored.commit.clone())))
    }

    fn is_ancestor(&self, database: DatabaseId, ancestor: &CommitHash, descendant: &CommitHash) -> Result<bool> {
        self.look(database, |history| history.is_ancestor(ancestor, descendant))
    }

    fn limit_history(&self, _: Arc<dyn branchyard_domain::ports::Reachability>) {
        // The SQL of this engine cannot refer to commits.
    }

    fn merge_base(&self, database: DatabaseId, a: &CommitHash, b: &CommitHash) -> Result<Option<CommitHash>> {
        self.look(database, |history| history.merge_base(a, b))
    }

    fn log(&self, database: DatabaseId, at: &LogPosition, limit: usize) -> Result<Vec<LogEntry>> {
        self.look(database, |history| {
            let mut walk = LogWalk::new(&at.from);
            let mut entries = history.log(&at.from)?.into_iter().map(|commit| {
                let next = walk.pass(&commit.hash, &commit.parents);
                LogEntry { commit: commit.clone(), next }
            });
            if let Some(after) = &at.after {
                entries.by_ref().find(|entry| entry.commit.hash == *after);
            }
            Ok(entries.take(limit).collect())
        })
    }

    fn fetch(&self, into: DatabaseId, from: DatabaseId, commit: &CommitHash) -> Result<()> {
        let wanted = self.look(from, |history| history.reachable(commit))?;
        self.let_happen();
        self.change(into, |history| {
            history.take_in(wanted);
            Ok(())
        })
    }

    /// The chunks of this engine are its commits, and their content is the message.
    fn chunks(&self, database: DatabaseId, hashes: &[ChunkHash], at_most: usize) -> Result<Vec<Option<Chunk>>> {
        self.look(database, |history| {
            let mut bytes = 0;
            let chunks = hashes.iter().enumerate().map_while(|(number, hash)| {
                let commit = history.get(&hash.as_commit()).ok().map(|stored| &stored.commit);
                bytes += commit.map_or(0, |commit| commit.message.len());
                let chunk = |commit: &Commit| Chunk {
                    bytes: commit.message.clone().into_bytes(),
                    parents: Some(commit.parents.clone()),
                };
                (number == 0 || bytes <= at_most).then(|| commit.map(chunk))
            });
            Ok(chunks.collect())
        })
    }

    fn reached_with_prefix(
        &self,
        database: DatabaseId,
        heads: &[CommitHash],
        prefix: &CommitPrefix,
        at_most: usize,
        timeout: Duration,
    ) -> Result<Option<Vec<CommitHash>>> {
        self.look(database, |history| {
            let reached = heads.iter().filter_map(|head| history.log(head).ok()).flatten();
            let found: BTreeSet<_> = reached.map(|commit| &commit.hash).filter(|hash| prefix.begins(hash)).collect();
            Ok((!timeout.is_zero()).then(|| found.into_iter().take(at_most).cloned().collect()))
        })
    }

    fn ahead_behind(
        &self,
        database: DatabaseId,
        base: &CommitHash,
        heads: &[CommitHash],
        at_most: usize,
        timeout: Duration,
    ) -> Result<Vec<Option<(usize, usize)>>> {
        self.look(database, |history| {
            let reach = |head: &CommitHash| -> BTreeSet<CommitHash> {
                history.log(head).into_iter().flatten().map(|commit| commit.hash.clone()).collect()
            };
            let theirs = reach(base);
            let count = |head: &CommitHash| {
                let ours = reach(head);
                let ahead = ours.difference(&theirs).count().min(at_most + 1);
                (ahead, theirs.difference(&ours).count().min(at_most + 1))
            };
            Ok(heads.iter().map(|head| (!timeout.is_zero()).then(|| count(head))).collect())
        })
    }

    fn held_chunks(&self, database: DatabaseId, hashes: &[ChunkHash]) -> Result<Vec<Option<HeldChunk>>> {
        self.look(database, |history| {
            let held = |hash: &ChunkHash| history.get(&hash.as_commit()).ok();
            Ok(hashes.iter().map(|hash| Some(HeldChunk::Commit(held(hash)?.commit.parents.clone()))).collect())
        })
    }

    /// A pushed commit is one that another file of this engine holds.
    fn examine_push(&self, database: DatabaseId, pushed: &File, tips: &[CommitHash]) -> Result<PushedHistory> {
        let pushed = pushed_hashes(pushed)?;
        let files = self.files.lock();
        let into = files.get(&database).ok_or_else(no_file)?;
        let (mut known, mut next, mut seen) = (Vec::new(), tips.to_vec(), BTreeSet::new());
        while let Some(hash) = next.pop() {
            if !seen.insert(hash.clone()) {
                continue;
            }
            if pushed.contains(&hash) {
                let Some(stored) = files.values().find_map(|file| file.get(&hash).ok()) else {
                    return Ok(PushedHistory::Malformed(format!("chunk {hash} is not accepted: it is no commit")));
                };
                next.extend(stored.commit.parents.iter().cloned());
            } else if into.get(&hash).is_ok() {
                known.push(hash);
            } else {
                return Ok(PushedHistory::Lacking);
            }
        }
        let date = |tip: &CommitHash| {
            let found = files.values().find_map(|file| file.get(tip).ok()).filter(|_| pushed.contains(tip));
            found.map(|stored| stored.commit.author.at)
        };
        Ok(PushedHistory::Complete { known, dates: tips.iter().map(date).collect() })
    }

    fn take_over_push(&self, database: DatabaseId, pushed: &File, tips: &[CommitHash]) -> Result<()> {
        let is_complete = matches!(self.examine_push(database, pushed, tips)?, PushedHistory::Complete { .. });
        self.let_happen();
        for tip in tips {
            let found = self.files.lock().values().find_map(|file| file.reachable(tip).ok()).filter(|_| is_complete);
            let found = found.ok_or_else(|| EngineError::NoSuchCommit(tip.clone()))?;
            self.change(database, |history| {
                history.take_in(found);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// A commit whose message begins with `bad` has a problem.
    fn check_commit(
        &self,
        database: DatabaseId,
        commit: &CommitHash,
        _trusted: Option<&CommitHash>,
        timeout: Duration,
    ) -> Result<Vec<String>> {
        not_over(timeout)?;
        self.look(database, |history| {
            let message = &history.get(commit)?.commit.message;
            Ok(message.strip_prefix("bad").map(|rest| format!("it is bad{rest}")).into_iter().collect())
        })
    }

    fn read(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        query: &ReadQuery<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<ReadReport> {
        let tables = self.look(database, |history| Ok(Arc::clone(&history.get(at)?.tables)))?;
        if query.timeout.is_zero() {
            return Err(EngineError::Sql { failure: SqlFailure::TimedOut(0), statement: 1 });
        }
        sql::read(&tables, query.sql, sink)?;
        Ok(ReadReport { deterministic: true })
    }

    fn scan(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        scan: &TableScan<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Duration> {
        let tables = self.look(database, |history| Ok(Arc::clone(&history.get(at)?.tables)))?;
        let (take, breaks_after) = {
            let scans = self.scans.lock();
            (scans.take, scans.breaks_after)
        };
        not_over(scan.timeout.saturating_sub(take))?;
        let mut sink = Breaking { sink, rows_left: breaks_after.unwrap_or(usize::MAX), broken: false };
        sql::scan(&tables, scan.table, &mut sink)?;
        match sink.broken {
            true => Err(EngineError::Fault {
                context: "read a table".to_owned(),
                source: Box::new(FakeFault("planned by a test")),
            }),
            false => Ok(scan.timeout - take),
        }
    }

    fn rows(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        wanted: &Selection<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<Selected> {
        let tables = self.look(database, |history| Ok(Arc::clone(&history.get(at)?.tables)))?;
        browse::rows(&tables, wanted, sink)
    }

    fn count(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        table: &str,
        tests: &[RowTest],
        timeout: Duration,
    ) -> Result<u64> {
        if timeout.is_zero() {
            return Err(EngineError::Sql { failure: SqlFailure::TimedOut(0), statement: 1 });
        }
        let tables = self.look(database, |history| Ok(Arc::clone(&history.get(at)?.tables)))?;
        browse::count(&tables, table, tests)
    }

    fn column_values(&self, database: DatabaseId, at: &CommitHash, query: &ColumnQuery<'_>) -> Result<ColumnValues> {
        let tables = self.look(database, |history| Ok(Arc::clone(&history.get(at)?.tables)))?;
        browse::column_values(&tables, query)
    }

    fn write(&self, database: DatabaseId, job: &WriteJob<'_>) -> Result<Written> {
        self.wait_while_held(database);
        self.let_happen();
        if *self.writes_take.lock() > job.timeout {
            return Err(EngineError::TimedOut(u64::try_from(job.timeout.as_millis()).unwrap_or(u64::MAX)));
        }
        self.change(database, |history| {
            let mut head = job.base.clone();
            let before = Arc::clone(&history.get(&head)?.tables);
            let (after, rows_affected) = sql::write(&before, job.statements)?;
            let ended = |outcome| Written { outcome, rows_affected };
            let changed = after != *before;
            let statements = changed.then(|| Arc::new(after));
            let Some((theirs, message)) = job.then_merge else {
                return Ok(ended(MergeOutcome::Head(match statements {
                    Some(tables) => history.add(vec![head], job.message, job.author, tables),
                    None => head,
                })));
            };
            if !changed && history.is_ancestor(&head, theirs)? {
                return Ok(ended(MergeOutcome::Head(theirs.clone())));
            }
            // If the merge fails, the commit is removed too. An unreachable commit would do no harm either.
            let kept = history.clone();
            if let Some(tables) = statements {
                head = history.add(vec![head], job.message, job.author, tables);
            }
            let (ours, author, resolve, timeout) = (&head, job.author, &BTreeMap::new(), job.timeout);
            let merge = MergeJob { ours, theirs, message, author, resolve, rows: &[], fast_forward: true, timeout };
            let outcome = merge::merge(history, &merge);
            if !matches!(outcome, Ok(MergeOutcome::Head(_))) {
                *history = kept;
            }
            outcome.map(ended)
        })
    }

    fn preview_write(&self, database: DatabaseId, job: &PreviewJob<'_>) -> Result<Previewed> {
        if job.timeout.is_zero() || *self.writes_take.lock() > job.timeout {
            return Ok(Previewed::Refused(PreviewRefusal::TooLong));
        }
        self.look(database, |history| {
            let before = &history.get(job.base)?.tables;
            let (after, rows_affected) = sql::write(before, job.statements)?;
            let mut bytes = job.bytes;
            let mut tables = Vec::new();
            for change in diff::tables(before, &after) {
                let page = RowPage { after: None, limit: job.rows, bytes };
                let rows = match change.rows {
                    Some((0, 0, 0)) => ChangedRows::default(),
                    _ if bytes == 0 => ChangedRows { rows: Vec::new(), more: true },
                    _ => diff::rows(before, &after, &change.table, &page)?,
                };
                bytes = bytes.saturating_sub(rows.bytes());
                let schema = |tables: &Snapshot| tables.find(&change.table).map(|table| table.schema());
                let definitions = if change.schema_changed { (schema(before), schema(&after)) } else { (None, None) };
                tables.push(PreviewedTable { change, rows, definitions });
            }
            Ok(Previewed::Changes(WritePreview { rows_affected, tables }))
        })
    }

    fn merge(&self, database: DatabaseId, job: &MergeJob<'_>) -> Result<MergeOutcome> {
        self.let_happen();
        self.change(database, |history| merge::merge(history, job))
    }

    fn conflicts(
        &self,
        database: DatabaseId,
        ours: &CommitHash,
        theirs: &CommitHash,
        table: Option<&str>,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<Conflict>> {
        let pair = (database, ours.clone(), theirs.clone());
        if self.prepared.lock().as_ref().is_some_and(|prepared| !prepared.contains(&pair)) {
            return Err(EngineError::Busy);
        }
        self.look(database, |history| {
            let found = merge::conflicts(history, ours, theirs)?.into_iter();
            let wanted = found.filter(|c| table.is_none_or(|table| c.table.eq_ignore_ascii_case(table)));
            Ok(wanted.skip(skip).take(limit).collect())
        })
    }

    fn needs_preparing(&self, _: DatabaseId) -> bool {
        self.prepared.lock().is_some()
    }

    fn prepare_conflicts(&self, database: DatabaseId, ours: &CommitHash, theirs: &CommitHash) -> Result<()> {
        if let Some(prepared) = self.prepared.lock().as_mut() {
            prepared.insert((database, ours.clone(), theirs.clone()));
        }
        match self.look(database, |history| merge::conflicts(history, ours, theirs)) {
            Ok(_) | Err(EngineError::CannotMerge(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn import(&self, database: DatabaseId, job: &ImportJob<'_>, rows: &mut dyn RowSource) -> Result<CommitHash> {
        self.let_happen();
        let before = self.look(database, |history| Ok(Arc::clone(&history.get(job.base)?.tables)))?;
        let after = rows::import(&before, job, rows)?;
        if after == *before {
            return Ok(job.base.clone());
        }
        self.change(database, |history| {
            Ok(history.add(vec![job.base.clone()], job.message, job.author, Arc::new(after)))
        })
    }

    fn run_script(&self, database: DatabaseId, job: &ScriptJob<'_>, script: &mut dyn Read) -> Result<CommitHash> {
        self.let_happen();
        let before = self.look(database, |history| Ok(Arc::clone(&history.get(job.base)?.tables)))?;
        let after = script::run(&before, job, script)?;
        if after == *before {
            return Ok(job.base.clone());
        }
        self.change(database, |history| {
            Ok(history.add(vec![job.base.clone()], job.message, job.author, Arc::new(after)))
        })
    }

    fn changed_tables(&self, database: DatabaseId, from: &CommitHash, to: &CommitHash) -> Result<Vec<TableChange>> {
        self.look(database, |history| Ok(diff::tables(&history.get(from)?.tables, &history.get(to)?.tables)))
    }

    fn changed_rows(
        &self,
        database: DatabaseId,
        from: &CommitHash,
        to: &CommitHash,
        table: &str,
        page: &RowPage,
    ) -> Result<ChangedRows> {
        self.look(database, |history| diff::rows(&history.get(from)?.tables, &history.get(to)?.tables, table, page))
    }

    fn row_history(
        &self,
        database: DatabaseId,
        at: &HistoryPosition,
        wanted: &HistoryQuery<'_>,
    ) -> Result<HistoryPage> {
        self.look(database, |history| row_history::page(history, at, wanted))
    }

    fn tables(&self, database: DatabaseId, at: &CommitHash) -> Result<Vec<TableSchema>> {
        self.look(database, |history| Ok(history.get(at)?.tables.iter().map(|table| table.schema()).collect()))
    }

    fn objects(&self, database: DatabaseId, at: &CommitHash) -> Result<Vec<SchemaObject>> {
        self.look(database, |history| Ok(history.get(at)?.tables.objects()))
    }

    /// Writes the first bytes of a SQLite 3 file and the definitions of the tables.
    fn export_sqlite(&self, database: DatabaseId, at: &CommitHash, mut into: &File, job: &SqliteExport) -> Result<()> {
        let tables = self.tables(database, at)?;
        not_over(job.timeout)?;
        let mut file = b"SQLite format 3\0".to_vec();
        for table in tables {
            file.extend_from_slice(table.create_statement.as_bytes());
        }
        if u64::try_from(file.len()).unwrap_or(u64::MAX) > job.max_bytes {
            let failure = SqlFailure::Engine(format!("the file would have more than {} bytes", job.max_bytes));
            return Err(EngineError::Sql { failure, statement: 1 });
        }
        into.write_all(&file).map_err(|error| EngineError::Unavailable(error.to_string()))
    }

    fn scratch_folder(&self) -> PathBuf {
        std::env::temp_dir()
    }

    fn verify(&self, database: DatabaseId, heads: &[CommitHash]) -> Result<Vec<String>> {
        self.look(database, |history| {
            let lost = heads.iter().filter(|head| history.get(head).is_err());
            Ok(lost.map(|head| format!("commit {head} is not in the file")).collect())
        })
    }
}
