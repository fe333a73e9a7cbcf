//! Positions in the history of a row or a table, in a form that page tokens can hold.

use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Level};
use branchyard_domain::entities::LogPosition;
use branchyard_domain::errors::RowHistoryError;
use branchyard_domain::ports::HistoryPosition;
use branchyard_domain::usecases::{RowHistory, RowRevision, WantedHistory};
use branchyard_domain::values::CommitHash;
use serde::{Deserialize, Serialize};

use crate::key_cells::KeyCells;

/// A position in a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryKey {
    /// The commit whose history it is.
    head: String,
    from: String,
    after: Option<String>,
    row: Option<KeyCells>,
    skip: usize,
}

impl HistoryKey {
    /// Returns the beginning of the history of a commit.
    pub fn begin(head: &CommitHash) -> Self {
        Self { head: head.to_string(), from: head.to_string(), after: None, row: None, skip: 0 }
    }

    /// Returns the commit whose history it is, or `None` if the key is malformed.
    pub fn head(&self) -> Option<CommitHash> {
        CommitHash::parse(&self.head).ok()
    }

    fn position(&self) -> Option<HistoryPosition> {
        let after = self.after.as_deref().map(CommitHash::parse).transpose().ok()?;
        let log = LogPosition { from: CommitHash::parse(&self.from).ok()?, after };
        Some(HistoryPosition { log, after: self.row.as_ref().and_then(KeyCells::cells) })
    }

    /// Moves to a position. Rows whose keys are too long for a token are counted from the last row with a shorter key.
    fn pass(&mut self, next: &HistoryPosition) {
        let HistoryPosition { log, after } = next;
        let (from, log_after) = (log.from.to_string(), log.after.as_ref().map(ToString::to_string));
        let is_same = (&self.from, &self.after) == (&from, &log_after);
        (self.from, self.after) = (from, log_after);
        match after.as_ref().map(|cells| KeyCells::of(cells.iter())) {
            None => (self.row, self.skip) = (None, 0),
            Some(Some(row)) => (self.row, self.skip) = (Some(row), 0),
            Some(None) if is_same => self.skip += 1,
            Some(None) => (self.row, self.skip) = (None, 1),
        }
    }
}

/// A page of a history with the positions behind each of its changes.
pub struct HistoryFound {
    /// The changes.
    pub changes: Vec<(RowRevision, HistoryKey)>,
    /// Where the next page begins. `None` if the whole history was looked at.
    pub next: Option<HistoryKey>,
    /// What was looked at for this page, without the changes.
    pub looked: RowHistory,
}

/// Returns at most `limit` changes from a position on. Blocks.
///
/// # Errors
/// [`RowHistoryError`].
pub fn history_from<L: Level>(
    hub: &Hub,
    access: &DatabaseAccess<L>,
    wanted: WantedHistory,
    place: Option<&HistoryKey>,
) -> Result<HistoryFound, RowHistoryError> {
    let mut key = place.cloned().unwrap_or_else(|| HistoryKey::begin(&wanted.head));
    let passed = key.skip;
    let at = place.and_then(HistoryKey::position);
    let limit = wanted.limit.saturating_add(passed);
    let mut looked = hub.row_histories().changes(access, &WantedHistory { at, limit, ..wanted })?;
    let mut changes = Vec::with_capacity(looked.changes.len());
    for change in std::mem::take(&mut looked.changes).into_iter().skip(passed) {
        key.pass(&change.change.next);
        changes.push((change, key.clone()));
    }
    let next = looked.next.as_ref().map(|next| {
        // The last change may be one whose key does not fit into a token; then the count goes on from there.
        if changes.last().is_none_or(|(change, _)| change.change.next != *next) {
            key.pass(next);
        }
        key
    });
    Ok(HistoryFound { changes, next, looked })
}

#[cfg(test)]
mod tests {
    use super::*;
    use branchyard_domain::entities::Cell;

    #[test]
    fn rows_with_long_keys_are_counted_within_their_commit() {
        let hash = |digit: char| CommitHash::parse(&digit.to_string().repeat(40)).unwrap();
        let position = |digit, after| HistoryPosition { log: hash(digit).into(), after };
        let long = || Some(vec![Cell::Text(vec![b'x'; 5_000])]);
        let mut key = HistoryKey::begin(&hash('a'));
        key.pass(&position('b', Some(vec![Cell::Integer(7)])));
        assert_eq!(key.position(), Some(position('b', Some(vec![Cell::Integer(7)]))));
        key.pass(&position('b', long()));
        assert_eq!((key.position(), key.skip), (Some(position('b', Some(vec![Cell::Integer(7)]))), 1));
        key.pass(&position('c', long()));
        key.pass(&position('c', long()));
        assert_eq!((key.position(), key.skip), (Some(position('c', None)), 2));
        key.pass(&position('d', None));
        assert_eq!((key.position(), key.skip, key.head()), (Some(position('d', None)), 0, Some(hash('a'))));
    }
}
