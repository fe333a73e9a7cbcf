//! Where a page of changed rows ends, in a form that page tokens hold.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use branchyard_domain::entities::Cell;
use branchyard_domain::ports::RowPage;
use serde::{Deserialize, Serialize};

/// Bytes of a row's key that a page token may hold; rows with longer ones are counted from the last shorter one.
const KEY_MAX_BYTES: usize = 2_000;

/// A cell of a key, exactly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum KeyCell {
    N,
    I(i64),
    R(u64),
    T(String),
    B(String),
}

impl From<&Cell> for KeyCell {
    fn from(cell: &Cell) -> Self {
        match cell {
            Cell::Null => Self::N,
            Cell::Integer(number) => Self::I(*number),
            Cell::Real(number) => Self::R(number.to_bits()),
            Cell::Text(bytes) => Self::T(STANDARD_NO_PAD.encode(bytes)),
            Cell::Blob(bytes) => Self::B(STANDARD_NO_PAD.encode(bytes)),
        }
    }
}

impl KeyCell {
    fn cell(&self) -> Option<Cell> {
        Some(match self {
            Self::N => Cell::Null,
            Self::I(number) => Cell::Integer(*number),
            Self::R(bits) => Cell::Real(f64::from_bits(*bits)),
            Self::T(text) => Cell::Text(STANDARD_NO_PAD.decode(text).ok()?),
            Self::B(text) => Cell::Blob(STANDARD_NO_PAD.decode(text).ok()?),
        })
    }
}

/// A place among the changed rows of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowKey {
    /// The table.
    pub table: String,
    after: Option<Vec<KeyCell>>,
    skip: usize,
}

impl RowKey {
    /// Before the first row of a table.
    pub fn before(table: &str) -> Self {
        Self { table: table.to_owned(), after: None, skip: 0 }
    }

    /// What to ask for to have `rows` rows from here on. The first [`RowKey::skip`] of them come before.
    pub fn page(&self, rows: usize) -> RowPage {
        RowPage {
            after: self.after.as_ref().and_then(|cells| cells.iter().map(KeyCell::cell).collect()),
            limit: rows.saturating_add(self.skip),
        }
    }

    /// How many rows of [`RowKey::page`] come before this place.
    pub fn skip(&self) -> usize {
        self.skip
    }

    /// Moves behind the next row.
    pub fn pass(&mut self, primary_key: &[(String, Cell)]) {
        if key_bytes(primary_key) <= KEY_MAX_BYTES {
            self.after = Some(primary_key.iter().map(|(_, cell)| cell.into()).collect());
            self.skip = 0;
        } else {
            self.skip += 1;
        }
    }
}

fn key_bytes(key: &[(String, Cell)]) -> usize {
    let bytes = key.iter().map(|(_, cell)| match cell {
        Cell::Null | Cell::Integer(_) | Cell::Real(_) => 24,
        Cell::Text(bytes) | Cell::Blob(bytes) => bytes.len() * 4 / 3 + 10,
    });
    bytes.sum()
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
        assert_eq!(place.skip(), 1);
        let page = place.page(10);
        assert_eq!((page.after, page.limit), (Some(vec![Cell::Integer(7)]), 11));
        place.pass(&key(Cell::Blob(vec![0, 255])));
        assert_eq!((place.page(10).after, place.skip()), (Some(vec![Cell::Blob(vec![0, 255])]), 0));
    }
}
