//! Cursors over changed rows, in a form that page tokens can hold.

use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Level};
use branchyard_domain::entities::{Cell, RowChange};
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::RowPage;
use branchyard_domain::values::CommitHash;
use serde::{Deserialize, Serialize};

use crate::key_cells::KeyCells;
use crate::paging::Listed;

/// Bytes of values read per engine call. The values are truncated when they are shown.
const PAGE_BYTES: usize = 8 << 20;

/// A position among the changed rows of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowKey {
    /// Name of the table.
    pub table: String,
    after: Option<KeyCells>,
    skip: usize,
}

impl RowKey {
    /// Returns the position before the first row of a table.
    pub fn before(table: &str) -> Self {
        Self { table: table.to_owned(), after: None, skip: 0 }
    }

    fn cells(&self) -> Option<Vec<Cell>> {
        self.after.as_ref().and_then(KeyCells::cells)
    }

    /// Advances past a row. Rows whose keys are too long for a token are counted from the last row with a shorter key.
    fn pass(&mut self, primary_key: &[(String, Cell)]) {
        match KeyCells::of(primary_key.iter().map(|(_, cell)| cell)) {
            Some(key) => (self.after, self.skip) = (Some(key), 0),
            None => self.skip += 1,
        }
    }
}

/// Returns at most `limit` changed rows between two commits from a position on, each with the position after it. Returns fewer if
/// the rows are large, but at least one if there is one. Blocks.
///
/// # Errors
/// [`ReadError`] if the rows cannot be read.
pub fn changed_rows_from<L: Level>(
    hub: &Hub,
    access: &DatabaseAccess<L>,
    (from, to): (&CommitHash, &CommitHash),
    place: &RowKey,
    limit: usize,
) -> Result<Listed<(RowChange, RowKey)>, ReadError> {
    let mut place = place.clone();
    let mut rows = Vec::new();
    let mut after = place.cells();
    // The number of rows that the position could only count.
    let mut passed = place.skip;
    loop {
        let page = RowPage { after, limit: limit.saturating_add(passed), bytes: PAGE_BYTES };
        let found = hub.history().changed_rows(access, from, to, &place.table, &page)?;
        after = found.rows.last().map(|row| row.primary_key.iter().map(|(_, cell)| cell.clone()).collect());
        let given = found.rows.len();
        for row in found.rows.into_iter().skip(passed) {
            place.pass(&row.primary_key);
            rows.push((row, place.clone()));
        }
        passed = passed.saturating_sub(given);
        let more = found.more && given > 0;
        if !more || !rows.is_empty() {
            return Ok(Listed { items: rows, more });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RowKey;
    use branchyard_domain::entities::Cell;

    #[test]
    fn rows_with_long_keys_are_counted_from_the_last_short_one() {
        let key = |cell: Cell| vec![("id".to_owned(), cell)];
        let mut place = RowKey::before("t");
        place.pass(&key(Cell::Integer(7)));
        place.pass(&key(Cell::Text(vec![b'x'; 5_000])));
        assert_eq!((place.cells(), place.skip), (Some(vec![Cell::Integer(7)]), 1));
        place.pass(&key(Cell::Blob(vec![0, 255])));
        assert_eq!((place.cells(), place.skip), (Some(vec![Cell::Blob(vec![0, 255])]), 0));
    }
}
