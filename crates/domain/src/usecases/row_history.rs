//! The history of rows: which commits changed a row or the rows of a table, and which commit each cell is from.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::row_keys::row_key;
use super::{Inner, browse};
use crate::access::{DatabaseAccess, Level};
use crate::entities::{Cell, Commit, TableKind, TableSchema};
use crate::errors::{PortError, ReadError, RowHistoryError};
use crate::ports::{EngineError, HistoryChange, HistoryPage, HistoryPosition, HistoryQuery};
use crate::values::{CommitHash, DatabaseId, PullNumber};

/// Time for which a page of a history looks at commits.
const LOOK: Duration = Duration::from_millis(150);
/// Time for which the commits of all cells of a row are looked for.
const BLAME: Duration = Duration::from_secs(2);
/// Number of changes that are read at a time while the commits of cells are looked for. Each is a whole row, twice.
const BLAMED_AT_A_TIME: usize = 20;
/// Bytes of values on a page. A change is as long as its row, before and after.
const PAGE_BYTES: usize = 8 << 20;

/// What to find in the history of a table.
#[derive(Debug, Clone)]
pub struct WantedHistory {
    /// The commit whose history is looked at.
    pub head: CommitHash,
    /// Name of the table, in any letter case.
    pub table: String,
    /// The columns of the primary key and their values, as the caller writes them. `None` for the history of all rows.
    pub key: Option<Vec<(String, Cell)>>,
    /// Where the page begins. `None` for the first page.
    pub at: Option<HistoryPosition>,
    /// Maximum number of changes.
    pub limit: usize,
}

/// A page of a history, newest changes first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowHistory {
    /// The changes.
    pub changes: Vec<RowRevision>,
    /// Where the next page begins. `None` if the whole history was looked at. A page may hold few changes, or none, and still
    /// have a next one, because the time for it was used up.
    pub next: Option<HistoryPosition>,
    /// Number of commits that were looked at for this page.
    pub commits: u64,
    /// The last of these commits.
    pub last: Option<CommitHash>,
    /// The commit at which the history ends because it changed the columns of the primary key.
    pub key_changed_by: Option<CommitHash>,
}

/// A change of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct RowRevision {
    /// The change and its commit.
    pub change: HistoryChange,
    /// The pull request that brought the commit to the branch.
    pub pull: Option<PullNumber>,
}

/// The commits that the cells of a row are from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowBlame {
    /// The cells, by the order of the columns. Cells whose commit was not found in time are missing.
    pub cells: Vec<CellBlame>,
    /// Whether all commits were found.
    pub is_complete: bool,
    /// Number of commits that were looked at.
    pub commits: u64,
    /// The commit at which the search ended because it changed the columns of the primary key.
    pub key_changed_by: Option<CommitHash>,
}

/// The commit that a cell is from.
#[derive(Debug, Clone, PartialEq)]
pub struct CellBlame {
    /// Name of the column.
    pub column: String,
    /// The commit that gave the cell its value.
    pub commit: Commit,
    /// The value before. `None` if the commit added the row or the column.
    pub from: Option<Cell>,
    /// The pull request that brought the commit to the branch.
    pub pull: Option<PullNumber>,
}

/// Use cases of the history of rows.
pub struct RowHistories<'a>(&'a Inner);

impl<'a> RowHistories<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns a page of the changes of a row, or of all rows of a table. A merge is among the commits only if the row differs from
    /// that of all its parents. A row that was removed has a history.
    ///
    /// # Errors
    /// [`RowHistoryError::NoSuchRow`] if there never was a row with this key; [`RowHistoryError::Key`] with all faults of the key;
    /// [`ReadError::NoSuchTable`].
    pub fn changes<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        wanted: &WantedHistory,
    ) -> Result<RowHistory, RowHistoryError> {
        let database = access.database().id;
        let table = self.table(access, &wanted.head, &wanted.table)?;
        let key = wanted.key.as_ref().map(|key| row_key(&table, key)).transpose()?;
        let begin = wanted.at.clone().unwrap_or_else(|| wanted.head.clone().into());
        let page = self.page(database, &table.name, key.as_deref(), &begin, wanted.limit)?;
        let is_whole = wanted.at.is_none() && page.next.is_none() && page.key_changed_by.is_none();
        if key.is_some() && is_whole && page.changes.is_empty() {
            return Err(RowHistoryError::NoSuchRow(table.name));
        }
        let HistoryPage { changes, next, commits, last, key_changed_by } = page;
        let changes = self.with_pulls(database, changes)?;
        Ok(RowHistory { changes, next, commits, last, key_changed_by })
    }

    /// Returns for each cell of a row the commit that gave it its value. Looks for at most two seconds. A column that was renamed keeps its
    /// history if the number of columns stayed the same; a cell that was not set since its column was added without a default counts to the
    /// commit that added the row.
    ///
    /// # Errors
    /// As [`Self::changes`]; [`RowHistoryError::NoSuchRow`] if there is no such row now.
    pub fn blame<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        head: &CommitHash,
        table: &str,
        key: &[(String, Cell)],
    ) -> Result<RowBlame, RowHistoryError> {
        let (database, began) = (access.database().id, Instant::now());
        let table = self.table(access, head, table)?;
        let key = row_key(&table, key)?;
        let mut columns: Vec<(usize, &str)> = Vec::new();
        columns.extend(table.columns.iter().enumerate().map(|(at, column)| (at, column.name.as_str())));
        let width = columns.len();
        let (mut blame, mut found, mut begin) = (RowBlame::default(), Vec::new(), HistoryPosition::from(head.clone()));
        let mut is_seen = false;
        loop {
            let page = self.page(database, &table.name, Some(&key), &begin, BLAMED_AT_A_TIME)?;
            blame.commits += page.commits;
            blame.key_changed_by = page.key_changed_by;
            for change in page.changes {
                if !is_seen && change.row.to.is_none() {
                    return Err(RowHistoryError::NoSuchRow(table.name));
                }
                is_seen = true;
                columns.retain(|(at, column)| match source(*at, column, width, &change) {
                    Source::Here(from) => {
                        found.push((*at, (*column).to_owned(), from, change.clone()));
                        false
                    }
                    Source::Earlier => true,
                });
                if columns.is_empty() {
                    break;
                }
            }
            match page.next {
                _ if columns.is_empty() => break,
                Some(next) if began.elapsed() < BLAME => begin = next,
                Some(_) => break,
                None if is_seen || blame.key_changed_by.is_some() => break,
                None => return Err(RowHistoryError::NoSuchRow(table.name)),
            }
        }
        blame.is_complete = columns.is_empty();
        found.sort_by_key(|(at, ..)| *at);
        let pulls = self.pulls(database, found.iter().map(|(.., change)| change))?;
        let cell = |(_, column, from, change): (_, _, _, HistoryChange)| CellBlame {
            column,
            from,
            pull: pulls.get(brought_by(&change)).copied(),
            commit: change.commit,
        };
        blame.cells = found.into_iter().map(cell).collect();
        Ok(blame)
    }

    fn table<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        at: &CommitHash,
        name: &str,
    ) -> Result<TableSchema, RowHistoryError> {
        let table = browse::Browse::new(self.0).table(access, at, name)?;
        if table.kind == TableKind::View {
            return Err(RowHistoryError::IsView(table.name));
        }
        Ok(table)
    }

    fn page(
        &self,
        database: DatabaseId,
        table: &str,
        key: Option<&[(String, Cell)]>,
        at: &HistoryPosition,
        limit: usize,
    ) -> Result<HistoryPage, RowHistoryError> {
        let wanted = HistoryQuery { table, key, limit, bytes: PAGE_BYTES, timeout: LOOK };
        match self.0.ports.engine.row_history(database, at, &wanted) {
            Err(EngineError::NoSuchTable(name)) => Err(ReadError::NoSuchTable(name).into()),
            Err(EngineError::TimedOut(millis)) => Err(ReadError::TimedOut(millis).into()),
            other => Ok(other.map_err(PortError::from)?),
        }
    }

    fn with_pulls(
        &self,
        database: DatabaseId,
        changes: Vec<HistoryChange>,
    ) -> Result<Vec<RowRevision>, RowHistoryError> {
        let pulls = self.pulls(database, changes.iter())?;
        let revision = |change: HistoryChange| {
            let pull = pulls.get(brought_by(&change)).copied();
            RowRevision { change, pull }
        };
        Ok(changes.into_iter().map(revision).collect())
    }

    /// Returns the pull requests whose merge brought the commits of changes.
    fn pulls<'c>(
        &self,
        database: DatabaseId,
        changes: impl Iterator<Item = &'c HistoryChange>,
    ) -> Result<HashMap<CommitHash, PullNumber>, PortError> {
        let commits: HashSet<&CommitHash> = changes.map(brought_by).collect();
        let commits: Vec<CommitHash> = commits.into_iter().cloned().collect();
        if commits.is_empty() {
            return Ok(HashMap::new());
        }
        let mut tx = self.0.ports.metadata.look()?;
        // The first pull request that was merged as a commit brought it.
        let mut numbers = tx.pulls().merged_as(database, &commits)?;
        numbers.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
        Ok(numbers.into_iter().collect())
    }
}

/// Returns the commit that brought a change to the branch: a merge, or its own.
fn brought_by(change: &HistoryChange) -> &CommitHash {
    change.merged_by.as_ref().unwrap_or(&change.commit.hash)
}

/// Where the value of a cell is from.
enum Source {
    /// From this change, before which it had this value.
    Here(Option<Cell>),
    /// From an earlier one.
    Earlier,
}

/// Finds out whether a change gave a cell the value that it has now. `at` is the place of its column among `width` ones.
fn source(at: usize, column: &str, width: usize, change: &HistoryChange) -> Source {
    let Some(from) = change.row.from.as_deref() else { return Source::Here(None) };
    let Some(to) = change.row.to.as_deref() else { return Source::Earlier };
    let named = |row: &[(String, Cell)]| -> Option<Cell> {
        row.iter().find(|(name, _)| name.eq_ignore_ascii_case(column)).map(|(_, cell)| cell.clone())
    };
    // A column that got its name later is at the same place.
    let placed = |row: &[(String, Cell)]| -> Option<Cell> {
        row.get(at).filter(|_| row.len() == width).map(|(_, cell)| cell.clone())
    };
    let (from, to) = match named(to) {
        Some(to) => (named(from).or_else(|| placed(from)), Some(to)),
        None if from.len() == to.len() => (placed(from), placed(to)),
        None => return Source::Earlier,
    };
    if from == to { Source::Earlier } else { Source::Here(from) }
}
