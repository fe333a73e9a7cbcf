//! The history of rows: which commits changed a row or the rows of a table, and which commit each cell is from.

mod blame;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::row_keys::row_key;
use super::{Inner, browse};
use crate::access::{DatabaseAccess, Level};
use crate::entities::{Cell, TableKind, TableSchema};
use crate::errors::{PortError, ReadError, RowHistoryError};
use crate::ports::{EngineError, HistoryChange, HistoryPage, HistoryPosition, HistoryQuery};
use crate::values::{CommitHash, DatabaseId, PullNumber};

pub use blame::{CellBlame, RowBlame};

/// Time for which a page of a history looks at commits.
const LOOK: Duration = Duration::from_millis(150);
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
        let query = query(&table.name, key.as_deref(), wanted.limit);
        let page = self.page(database, &begin, &query)?;
        let is_whole = wanted.at.is_none() && page.next.is_none() && page.key_changed_by.is_none();
        if key.is_some() && is_whole && page.changes.is_empty() {
            return Err(RowHistoryError::NoSuchRow(table.name));
        }
        let HistoryPage { changes, next, commits, last, key_changed_by } = page;
        let changes = self.with_pulls(database, changes)?;
        Ok(RowHistory { changes, next, commits, last, key_changed_by })
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
        at: &HistoryPosition,
        wanted: &HistoryQuery<'_>,
    ) -> Result<HistoryPage, RowHistoryError> {
        match self.0.ports.engine.row_history(database, at, wanted) {
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
        let pulls = self.pulls(database, changes.iter().map(brought_by))?;
        let revision = |change: HistoryChange| {
            let pull = pulls.get(brought_by(&change)).copied();
            RowRevision { change, pull }
        };
        Ok(changes.into_iter().map(revision).collect())
    }

    /// Returns the pull requests that were merged as these commits.
    fn pulls<'c>(
        &self,
        database: DatabaseId,
        commits: impl Iterator<Item = &'c CommitHash>,
    ) -> Result<HashMap<CommitHash, PullNumber>, PortError> {
        let commits: HashSet<&CommitHash> = commits.collect();
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

fn query<'a>(table: &'a str, key: Option<&'a [(String, Cell)]>, limit: usize) -> HistoryQuery<'a> {
    HistoryQuery { table, key, first_parents: false, limit, bytes: PAGE_BYTES, timeout: LOOK }
}

/// Returns the commit that brought a change to the branch: a merge, or its own.
fn brought_by(change: &HistoryChange) -> &CommitHash {
    change.merged_by.as_ref().unwrap_or(&change.commit.hash)
}
