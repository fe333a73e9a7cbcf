//! The history of a row or of all rows of a table: which commits changed it.

use std::time::Duration;

use crate::entities::{Cell, Commit, LogPosition, RowChange};
use crate::values::CommitHash;

/// A position in the history of a row or a table, from which a page begins.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryPosition {
    /// The commits that are still to be looked at.
    pub log: LogPosition,
    /// The key of the last row that was returned of the first of these commits. `None` if none was returned, and always in the
    /// history of one row.
    pub after: Option<Vec<Cell>>,
}

impl From<CommitHash> for HistoryPosition {
    fn from(commit: CommitHash) -> Self {
        Self { log: commit.into(), after: None }
    }
}

/// What to find in the history of a table.
#[derive(Debug, Clone)]
pub struct HistoryQuery<'a> {
    /// Name of the table, in any letter case.
    pub table: &'a str,
    /// Names and values of all columns of the primary key, to find the changes of one row. `None` finds the changes of all rows.
    pub key: Option<&'a [(String, Cell)]>,
    /// Look only at first parents, as `git log --first-parent` does. A merge then counts if it differs from its first parent.
    pub first_parents: bool,
    /// Maximum number of changes.
    pub limit: usize,
    /// Soft limit on the bytes of values. A page ends at the change that reaches it.
    pub bytes: usize,
    /// Time after which no further commit is looked at. At least one is.
    pub timeout: Duration,
}

/// A row that a commit changed.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryChange {
    /// The commit.
    pub commit: Commit,
    /// The merge by which the commit came to the branch, if it is not one of the first parents from where the history begins.
    pub merged_by: Option<CommitHash>,
    /// How the row differs from the first parent.
    pub row: RowChange,
    /// Where the history goes on behind this change.
    pub next: HistoryPosition,
}

/// A page of the history of a row or a table, newest changes first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistoryPage {
    /// The changes. A merge is among them only if the row differs from that of all its parents that are looked at.
    pub changes: Vec<HistoryChange>,
    /// Where the next page begins. `None` if the whole history was looked at.
    pub next: Option<HistoryPosition>,
    /// Number of commits that were looked at.
    pub commits: u64,
    /// The last commit that was looked at.
    pub last: Option<CommitHash>,
    /// The commit at which the history of a row ends because it changed the columns of the primary key: keys before it cannot be
    /// compared with keys after it.
    pub key_changed_by: Option<CommitHash>,
}
