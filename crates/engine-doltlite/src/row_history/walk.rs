//! The walk along a history, and the comparison of each commit with its parents.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use branchyard_domain::entities::{Cell, Change, Commit, LogPosition, LogWalk, RowChange};
use branchyard_domain::ports::{
    ChangedRows, EngineError, HistoryChange, HistoryPage, HistoryPosition, HistoryQuery, RowPage,
};
use branchyard_domain::values::{ChunkHash, CommitHash, DatabaseId};
use branchyard_remote_protocol::layout::{self, Found};

use super::merges::Merges;
use super::row_key;
use crate::cells::NamedCells;
use crate::chunks::{ChunkReader, damaged};
use crate::commits::{self, from_chunk};
use crate::connection::Connection;
use crate::diff::{self, Comparison, TableSide};
use crate::engine::DoltliteEngine;
use crate::sql::errors;

/// Number of nodes whose content for the row is remembered. Each takes about 60 bytes.
const MOST_NODES: usize = 100_000;

/// The table in a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TableState {
    /// The root of its tree.
    root: ChunkHash,
    /// Changes with its definition.
    definition: ChunkHash,
}

/// What the comparison needs of a commit.
struct KnownCommit {
    /// The parents that are looked at.
    parents: Vec<ChunkHash>,
    table: Option<TableState>,
}

/// A walk that collects a page.
pub(super) struct HistoryWalk<'a> {
    engine: &'a DoltliteEngine,
    database: DatabaseId,
    wanted: &'a HistoryQuery<'a>,
    chunks: ChunkReader<'a>,
    /// Commits that are still to be passed, because a child has asked for them.
    known: HashMap<ChunkHash, Rc<KnownCommit>>,
    /// The encoded key, by the definition of the table. `None` for definitions with another key.
    keys: HashMap<ChunkHash, Option<Rc<[u8]>>>,
    /// The hash of the row's value below nodes, for one encoded key. `None` if there is no row.
    rows: HashMap<ChunkHash, Option<ChunkHash>>,
    rows_key: Rc<[u8]>,
    bytes: usize,
}

/// What a commit did to what is looked for.
enum Step {
    /// It was looked at as a whole.
    Whole,
    /// More of its rows follow the last one that was returned.
    Part(HistoryPosition),
    /// It changed the columns of the key.
    KeyChanged,
}

impl<'a> HistoryWalk<'a> {
    pub(super) fn new(
        engine: &'a DoltliteEngine,
        database: DatabaseId,
        wanted: &'a HistoryQuery<'a>,
        chunks: ChunkReader<'a>,
    ) -> Self {
        let (known, keys, rows, rows_key) = (HashMap::new(), HashMap::new(), HashMap::new(), Rc::default());
        Self { engine, database, wanted, chunks, known, keys, rows, rows_key, bytes: 0 }
    }

    pub(super) fn close(self) {
        self.chunks.close();
    }

    /// Collects a page. The connection shows the history.
    pub(super) fn page(&mut self, connection: &Connection, at: &HistoryPosition) -> Result<HistoryPage, EngineError> {
        let fault = |error| errors::fault_at("read the log", &at.log.from, error);
        let until = Instant::now() + self.wanted.timeout;
        let mut log = connection.raw().prepare_cached("SELECT commit_hash FROM dolt_log(?)").map_err(fault)?;
        let mut hashes = log.query([at.log.from.as_str()]).map_err(fault)?;
        let mut next_of_log = || -> Result<Option<CommitHash>, EngineError> {
            let Some(row) = hashes.next().map_err(fault)? else { return Ok(None) };
            let hash: String = row.get(0).map_err(fault)?;
            commits::parse(&hash).map(Some)
        };
        let first_parents = self.wanted.first_parents;
        let mut walk = LogWalk::new(&at.log.from);
        let mut merges = Merges::new(ChunkHash::from(&at.log.from));
        let mut skipped = at.log.after.clone();
        let (mut position, mut page) = (at.clone(), HistoryPage::default());
        let mut hash = next_of_log()?;
        while let Some(commit) = hash.take() {
            let chunk = ChunkHash::from(&commit);
            let known = self.known(chunk)?;
            let merged_by = merges.pass(chunk, &known.parents);
            let parents: Vec<CommitHash> = known.parents.iter().map(ChunkHash::as_commit).collect();
            let behind = walk.pass(&commit, &parents);
            let mut next_hash = || if first_parents { Ok(parents.first().cloned()) } else { next_of_log() };
            if let Some(last) = &skipped {
                if *last == commit {
                    skipped = None;
                }
                self.known.remove(&chunk);
                hash = next_hash()?;
                continue;
            }
            page.commits += 1;
            let step = match self.wanted.key {
                Some(_) => self.compare_row(chunk, &known, merged_by, &behind, &mut page)?,
                None => self.compare_table(chunk, &known, merged_by, &position, &mut page)?,
            };
            page.last = Some(commit);
            match step {
                Step::Whole => {}
                Step::Part(rest) => {
                    page.next = Some(rest);
                    break;
                }
                Step::KeyChanged => {
                    page.key_changed_by = page.last.clone();
                    break;
                }
            }
            // All its children have passed.
            self.known.remove(&chunk);
            position = HistoryPosition { log: behind, after: None };
            hash = next_hash()?;
            if hash.is_some() && (self.is_full(&page) || Instant::now() >= until) {
                page.next = Some(position);
                break;
            }
        }
        Ok(page)
    }

    fn is_full(&self, page: &HistoryPage) -> bool {
        page.changes.len() >= self.wanted.limit || self.bytes >= self.wanted.bytes
    }

    /// Compares the row with that of the parents.
    fn compare_row(
        &mut self,
        commit: ChunkHash,
        known: &KnownCommit,
        merged_by: Option<ChunkHash>,
        behind: &LogPosition,
        page: &mut HistoryPage,
    ) -> Result<Step, EngineError> {
        let Some(key) = self.wanted.key else { return Ok(Step::Whole) };
        let mine = match known.table {
            None => None,
            Some(table) => match self.key(commit, table)? {
                Some(encoded) => self.row(table.root, &encoded)?,
                None => return Err(EngineError::NoSuchTable(self.wanted.table.to_owned())),
            },
        };
        let mut differs = !known.parents.is_empty() || mine.is_some();
        for parent in &known.parents {
            let theirs = match self.known(*parent)?.table {
                None => None,
                same if same == known.table => mine,
                Some(table) => match self.key(*parent, table)? {
                    Some(encoded) => self.row(table.root, &encoded)?,
                    None => return Ok(Step::KeyChanged),
                },
            };
            differs &= theirs != mine;
        }
        if !differs {
            return Ok(Step::Whole);
        }
        let to = self.read_row(commit, key)?;
        let from = match known.parents.first() {
            Some(parent) => self.read_row(*parent, key)?,
            None => None,
        };
        // The engine may store equal values in different ways.
        let change = match (&from, &to) {
            (from, to) if from == to => return Ok(Step::Whole),
            (None, _) => Change::Added,
            (_, None) => Change::Removed,
            _ => Change::Modified,
        };
        let row = RowChange { table: self.wanted.table.to_owned(), change, primary_key: key.to_vec(), from, to };
        let found = self.commit(commit)?;
        self.push(found, merged_by, row, HistoryPosition { log: behind.clone(), after: None }, page);
        Ok(Step::Whole)
    }

    /// Compares the table with that of the parents, and finds the rows that differ.
    fn compare_table(
        &mut self,
        commit: ChunkHash,
        known: &KnownCommit,
        merged_by: Option<ChunkHash>,
        position: &HistoryPosition,
        page: &mut HistoryPage,
    ) -> Result<Step, EngineError> {
        let root = |table: Option<TableState>| table.map_or(ChunkHash::NONE, |table| table.root);
        let mut differs = !known.parents.is_empty() || root(known.table) != ChunkHash::NONE;
        for parent in &known.parents {
            differs &= root(self.known(*parent)?.table) != root(known.table);
        }
        if !differs {
            return Ok(Step::Whole);
        }
        let rows = RowPage {
            after: position.after.clone(),
            limit: self.wanted.limit.saturating_sub(page.changes.len()).max(1),
            bytes: self.wanted.bytes.saturating_sub(self.bytes).max(1),
        };
        let ChangedRows { rows, more } = self.changed_rows(commit, known.parents.first(), &rows)?;
        let behind = |row: &RowChange| HistoryPosition {
            log: position.log.clone(),
            after: Some(row.primary_key.iter().map(|(_, cell)| cell.clone()).collect()),
        };
        let rest = rows.last().filter(|_| more).map(behind);
        let others = known.parents.get(1..).unwrap_or_default();
        let found = self.commit(commit)?;
        for row in self.without_those_of(others, rows)? {
            let next = behind(&row);
            self.push(found.clone(), merged_by, row, next, page);
        }
        Ok(rest.map_or(Step::Whole, Step::Part))
    }

    fn changed_rows(
        &self,
        commit: ChunkHash,
        parent: Option<&ChunkHash>,
        page: &RowPage,
    ) -> Result<ChangedRows, EngineError> {
        let (to, table) = (commit.as_commit(), self.wanted.table);
        if let Some(parent) = parent {
            let from = parent.as_commit();
            return diff::changed_rows(&Comparison::of_commits(self.engine, self.database, &from, &to), table, page);
        }
        self.reading(commit, |connection| {
            let Some(side) = TableSide::find(connection, table)? else { return Ok(ChangedRows::default()) };
            let (rows, more) = side.rows(connection, page)?;
            let added = |(primary_key, row)| RowChange {
                table: side.name.clone(),
                change: Change::Added,
                primary_key,
                from: None,
                to: Some(row),
            };
            Ok(ChangedRows { rows: rows.into_iter().map(added).collect(), more })
        })
    }

    /// Removes the changes after which the row is that of another parent of a merge.
    fn without_those_of(&self, others: &[ChunkHash], mut rows: Vec<RowChange>) -> Result<Vec<RowChange>, EngineError> {
        for other in others {
            let table = self.wanted.table;
            rows = self.reading(*other, |connection| {
                let side = TableSide::find(connection, table)?;
                let mut kept = Vec::with_capacity(rows.len());
                for row in rows {
                    let theirs = match &side {
                        Some(side) => side.row(connection, &row.primary_key)?,
                        None => None,
                    };
                    if theirs != row.to {
                        kept.push(row);
                    }
                }
                Ok(kept)
            })?;
        }
        Ok(rows)
    }

    fn push(
        &mut self,
        commit: Commit,
        merged_by: Option<ChunkHash>,
        row: RowChange,
        next: HistoryPosition,
        page: &mut HistoryPage,
    ) {
        let cells = [&row.from, &row.to].into_iter().flatten().flatten().chain(&row.primary_key);
        self.bytes = self.bytes.saturating_add(cells.map(|(_, cell)| cell.bytes()).sum());
        page.changes.push(HistoryChange { commit, merged_by: merged_by.map(|merge| merge.as_commit()), row, next });
    }

    /// Returns what a commit says of itself.
    fn commit(&mut self, hash: ChunkHash) -> Result<Commit, EngineError> {
        let chunk = self.chunks.get(hash)?;
        let commit = layout::commit(&chunk).map_err(|malformed| damaged(hash, malformed))?;
        Ok(from_chunk(hash, &commit))
    }

    /// Returns the parents of a commit and its table.
    fn known(&mut self, hash: ChunkHash) -> Result<Rc<KnownCommit>, EngineError> {
        if let Some(known) = self.known.get(&hash) {
            return Ok(Rc::clone(known));
        }
        let chunk = self.chunks.get(hash)?;
        let commit = layout::commit(&chunk).map_err(|malformed| damaged(hash, malformed))?;
        let looked_at = if self.wanted.first_parents { 1 } else { usize::MAX };
        let parents = commit.parents.iter().take(looked_at).map(|parent| ChunkHash::from_bytes(*parent)).collect();
        let catalog = ChunkHash::from_bytes(commit.catalog);
        let table = if catalog == ChunkHash::NONE { None } else { self.table(catalog)? };
        let known = Rc::new(KnownCommit { parents, table });
        self.known.insert(hash, Rc::clone(&known));
        Ok(known)
    }

    fn table(&mut self, catalog: ChunkHash) -> Result<Option<TableState>, EngineError> {
        let (chunk, name, mut found) = (self.chunks.get(catalog)?, self.wanted.table.as_bytes(), None);
        layout::each_entry(&chunk, |entry| {
            if found.is_none() && matches!(entry.kind, b"" | b"table") && entry.name.eq_ignore_ascii_case(name) {
                let (root, definition) = (ChunkHash::from_bytes(entry.root), ChunkHash::from_bytes(entry.definition));
                found = Some(TableState { root, definition });
            }
        })
        .map_err(|malformed| damaged(catalog, malformed))?;
        Ok(found)
    }

    /// Returns the key as the table of a commit holds it, or `None` if the key of the table has other columns.
    fn key(&mut self, commit: ChunkHash, table: TableState) -> Result<Option<Rc<[u8]>>, EngineError> {
        if let Some(key) = self.keys.get(&table.definition) {
            return Ok(key.clone());
        }
        let (name, key) = (self.wanted.table, self.wanted.key.unwrap_or_default());
        let key = self.reading(commit, |connection| row_key::encode(connection, name, key))?.map(Rc::from);
        self.keys.insert(table.definition, key.clone());
        Ok(key)
    }

    /// Returns the hash of the row's value in the tree with this root.
    fn row(&mut self, root: ChunkHash, key: &Rc<[u8]>) -> Result<Option<ChunkHash>, EngineError> {
        if self.rows_key != *key || self.rows.len() > MOST_NODES {
            self.rows.clear();
            self.rows_key = Rc::clone(key);
        }
        let (mut path, mut node) = (Vec::new(), root);
        let found = loop {
            if node == ChunkHash::NONE {
                break None;
            }
            if let Some(found) = self.rows.get(&node) {
                break *found;
            }
            path.push(node);
            let chunk = self.chunks.get(node)?;
            match layout::find(&chunk, key).map_err(|malformed| damaged(node, malformed))? {
                Found::Nothing => break None,
                Found::Value(value) => break Some(ChunkHash::of(value)),
                Found::Below(child) => node = ChunkHash::from_bytes(child),
            }
        };
        self.rows.extend(path.into_iter().map(|node| (node, found)));
        Ok(found)
    }

    fn read_row(&self, commit: ChunkHash, key: &[(String, Cell)]) -> Result<Option<NamedCells>, EngineError> {
        self.reading(commit, |connection| match TableSide::find(connection, self.wanted.table)? {
            Some(side) => side.row(connection, key),
            None => Ok(None),
        })
    }

    fn reading<T>(
        &self,
        commit: ChunkHash,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, EngineError> {
        let timeout = self.engine.options.diff_timeout;
        self.engine.reading_within(timeout, self.database, &commit.as_commit(), "read the history of a row", work)
    }
}
