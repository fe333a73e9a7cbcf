//! Which commit each cell of a row is from.
//!
//! A cell is followed along first parents to the commit that gave it its value. If that commit is a merge, and the row of another
//! parent has the same value in the cell, the cell is followed along the line of that parent, as `git blame` follows a line. So a change
//! that a merge left out is never named, although it may be newer.

use std::time::{Duration, Instant};

use super::{RowHistories, query, row_key};
use crate::access::{DatabaseAccess, Level};
use crate::entities::{Cell, Commit};
use crate::errors::RowHistoryError;
use crate::ports::{HistoryChange, HistoryPosition, HistoryQuery};
use crate::values::{CommitHash, DatabaseId, PullNumber};

/// Time for which the commits of all cells of a row are looked for.
const BLAME: Duration = Duration::from_secs(2);
/// Number of changes that are read at a time. Each is a whole row, twice.
const AT_A_TIME: usize = 20;

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

impl RowHistories<'_> {
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
        let database = access.database().id;
        let table = self.table(access, head, table)?;
        let key = row_key(&table, key)?;
        let columns: Vec<Column> = table
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| Column { at, name: column.name.clone(), width: table.columns.len() })
            .collect();
        let mut search = Search {
            histories: self,
            database,
            wanted: HistoryQuery { first_parents: true, ..query(&table.name, Some(&key), AT_A_TIME) },
            until: Instant::now() + BLAME,
            blame: RowBlame::default(),
            found: Vec::with_capacity(columns.len()),
            lines: vec![Line { begin: head.clone().into(), columns, merge: None }],
        };
        while let Some(line) = search.lines.pop() {
            search.follow(line)?;
        }
        search.end(table.columns.len())
    }
}

/// A column of the table as it is now.
struct Column {
    /// Its place among the columns.
    at: usize,
    name: String,
    /// Number of columns of the table.
    width: usize,
}

/// A line of first parents, along which cells are followed.
struct Line {
    begin: HistoryPosition,
    columns: Vec<Column>,
    /// The merge whose parent the line begins with. `None` for the line of the head.
    merge: Option<Merge>,
}

/// A merge that gave cells their values, unless they are those of one of its other parents.
struct Merge {
    change: HistoryChange,
    /// Place of the parent, among all parents, with which the line begins.
    parent: usize,
    /// The merge on the line of the head that reaches this one, or is this one.
    brought_by: CommitHash,
}

/// A cell whose commit was found.
struct Found {
    column: Column,
    from: Option<Cell>,
    commit: Commit,
    brought_by: CommitHash,
}

struct Search<'a> {
    histories: &'a RowHistories<'a>,
    database: DatabaseId,
    wanted: HistoryQuery<'a>,
    until: Instant,
    blame: RowBlame,
    found: Vec<Found>,
    /// What is still to be followed.
    lines: Vec<Line>,
}

impl Search<'_> {
    /// Follows the cells of a line until all have a commit or go on in another line.
    fn follow(&mut self, line: Line) -> Result<(), RowHistoryError> {
        let Line { mut begin, mut columns, merge } = line;
        let mut is_first = true;
        loop {
            let page = self.histories.page(self.database, &begin, &self.wanted)?;
            self.blame.commits += page.commits;
            let is_cut = page.key_changed_by.is_some();
            self.blame.key_changed_by = self.blame.key_changed_by.take().or(page.key_changed_by);
            for change in &page.changes {
                if std::mem::take(&mut is_first) {
                    match &merge {
                        None if change.row.to.is_none() => return Err(self.no_such_row()),
                        None => {}
                        // The first change tells what the row is at the begin of the line.
                        Some(merge) => columns = self.same_as_in(merge, columns, change.row.to.as_deref()),
                    }
                }
                columns = self.of_change(change, columns, merge.as_ref());
                if columns.is_empty() {
                    return Ok(());
                }
            }
            match page.next {
                Some(next) if Instant::now() < self.until => begin = next,
                None if is_first && !is_cut => {
                    let Some(merge) = &merge else { return Err(self.no_such_row()) };
                    self.same_as_in(merge, columns, None);
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
    }

    /// Records a change as the source of the cells that it set. Returns the columns of the others.
    fn of_change(&mut self, change: &HistoryChange, columns: Vec<Column>, within: Option<&Merge>) -> Vec<Column> {
        let (set, earlier) = columns.into_iter().partition::<Vec<_>, _>(|column| column.is_set_by(change));
        self.set_by(change, 0, within.map_or(&change.commit.hash, |merge| &merge.brought_by), set);
        earlier
    }

    /// Follows cells to the parent after `parent` of the commit that set them, or gives them to the commit if it has no further one.
    fn set_by(&mut self, change: &HistoryChange, parent: usize, brought_by: &CommitHash, columns: Vec<Column>) {
        if columns.is_empty() {
            return;
        }
        let parent = parent + 1;
        if let Some(begin) = change.commit.parents.get(parent) {
            let merge = Merge { change: change.clone(), parent, brought_by: brought_by.clone() };
            self.lines.push(Line { begin: begin.clone().into(), columns, merge: Some(merge) });
            return;
        }
        self.found.extend(columns.into_iter().map(|column| Found {
            from: change.row.from.as_deref().and_then(|row| column.cell(row)).cloned(),
            commit: change.commit.clone(),
            brought_by: brought_by.clone(),
            column,
        }));
    }

    /// Returns the columns whose cells are the same in a merge and in the row of the parent that is looked at.
    fn same_as_in(&mut self, merge: &Merge, columns: Vec<Column>, row: Option<&[(String, Cell)]>) -> Vec<Column> {
        let merged = merge.change.row.to.as_deref().unwrap_or_default();
        let (same, other) =
            columns.into_iter().partition(|column| row.is_some_and(|row| column.cell(row) == column.cell(merged)));
        self.set_by(&merge.change, merge.parent, &merge.brought_by, other);
        same
    }

    fn no_such_row(&self) -> RowHistoryError {
        RowHistoryError::NoSuchRow(self.wanted.table.to_owned())
    }

    fn end(mut self, columns: usize) -> Result<RowBlame, RowHistoryError> {
        self.found.sort_by_key(|found| found.column.at);
        let pulls = self.histories.pulls(self.database, self.found.iter().map(|found| &found.brought_by))?;
        self.blame.is_complete = self.found.len() == columns;
        self.blame.cells = self
            .found
            .into_iter()
            .map(|Found { column, from, commit, brought_by }| CellBlame {
                column: column.name,
                from,
                pull: pulls.get(&brought_by).copied(),
                commit,
            })
            .collect();
        Ok(self.blame)
    }
}

impl Column {
    /// Returns the cell of this column in a row of any commit. A column that got its name later is at the same place.
    fn cell<'r>(&self, row: &'r [(String, Cell)]) -> Option<&'r Cell> {
        let named = row.iter().find(|(name, _)| name.eq_ignore_ascii_case(&self.name));
        named.or_else(|| row.get(self.at).filter(|_| row.len() == self.width)).map(|(_, cell)| cell)
    }

    /// Returns `true` if a change gave the cell the value that it has after the change.
    fn is_set_by(&self, change: &HistoryChange) -> bool {
        let Some(from) = change.row.from.as_deref() else { return true };
        // The row was removed here, and added later.
        let Some(to) = change.row.to.as_deref() else { return false };
        match self.cell(to) {
            Some(to) => self.cell(from) != Some(to),
            None => false,
        }
    }
}
