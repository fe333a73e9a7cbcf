//! Key cells of a row in a form that page tokens can hold.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use branchyard_domain::entities::Cell;
use serde::{Deserialize, Serialize};

/// Maximum bytes of the cells in a page token.
const MAX_BYTES: usize = 2_000;

/// Key cells, stored without loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyCells(Vec<KeyCell>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum KeyCell {
    N,
    I(i64),
    R(u64),
    T(String),
    B(String),
}

impl KeyCells {
    /// Encodes these cells. Returns `None` if they take more than 2000 bytes, which is too long for a URL.
    pub fn of<'a>(cells: impl Iterator<Item = &'a Cell> + Clone) -> Option<Self> {
        let bytes: usize = cells.clone().map(written_bytes).sum();
        (bytes <= MAX_BYTES).then(|| Self(cells.map(KeyCell::from).collect()))
    }

    /// Decodes the cells. Returns `None` if one is not valid base64.
    pub fn cells(&self) -> Option<Vec<Cell>> {
        self.0.iter().map(KeyCell::cell).collect()
    }
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

fn written_bytes(cell: &Cell) -> usize {
    match cell {
        Cell::Null | Cell::Integer(_) | Cell::Real(_) => 24,
        Cell::Text(bytes) | Cell::Blob(bytes) => bytes.len() * 4 / 3 + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyCells, MAX_BYTES};
    use branchyard_domain::entities::Cell;

    #[test]
    fn cells_come_back_exactly_and_have_a_limit() {
        let cells = [
            Cell::Null,
            Cell::Integer(i64::MIN),
            Cell::Real(-0.0),
            Cell::Real(f64::INFINITY),
            Cell::Text(vec![b'a', 255]),
            Cell::Blob(Vec::new()),
        ];
        assert_eq!(KeyCells::of(cells.iter()).unwrap().cells().unwrap(), cells);
        let text = |bytes: usize| [Cell::Text(vec![b'x'; bytes])];
        let longest = (MAX_BYTES - 10) * 3 / 4;
        assert!(KeyCells::of(text(longest).iter()).is_some());
        assert!(KeyCells::of(text(longest + 2).iter()).is_none());
    }
}
