//! Conversion of changed rows, with cells as text (v2 §6.3).

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::ValueRef;
use branchyard_http_common::cell_text;

use crate::wire;

/// Maximum size of a cell of a diff, a conflict or a key, in bytes. Longer cells are truncated.
const CELL_MAX_BYTES: usize = 64 << 10;
/// Maximum total size of the cells of one change or conflict, in bytes. JSON escaping can enlarge a text sixfold, and a
/// response is limited to 16 MiB.
const CELLS_MAX_BYTES: usize = 2 << 20;

/// The warning for text that is not valid UTF-8.
pub(crate) const REPLACED: &str = "some text is not valid UTF-8; invalid bytes are shown as U+FFFD";

fn borrowed(cell: &Cell) -> ValueRef<'_> {
    match cell {
        Cell::Null => ValueRef::Null,
        Cell::Integer(number) => ValueRef::Integer(*number),
        Cell::Real(number) => ValueRef::Real(*number),
        Cell::Text(bytes) => ValueRef::Text(bytes),
        Cell::Blob(bytes) => ValueRef::Blob(bytes),
    }
}

/// Returns the maximum size of each of `cells` cells that belong together, in bytes.
pub(super) fn cell_max_bytes(cells: usize) -> usize {
    CELL_MAX_BYTES.min(CELLS_MAX_BYTES / cells.max(1))
}

/// Converts a row to an object and truncates its cells to `most` bytes. Adds the columns of truncated cells to `truncated`,
/// once each.
pub(super) fn row(cells: &[(String, Cell)], most: usize, truncated: &mut Vec<String>) -> wire::Row {
    let cells = cells.iter().map(|(column, cell)| {
        let text = cell_text(borrowed(cell)).map(|text| {
            if text.len() <= most {
                return text.into_owned();
            }
            if !truncated.contains(column) {
                truncated.push(column.clone());
            }
            let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.get(..end).unwrap_or_default().to_owned()
        });
        (column.clone(), text)
    });
    wire::Row(cells.collect())
}

#[cfg(test)]
mod tests {
    use super::{cell_max_bytes, row};
    use branchyard_domain::entities::Cell;

    #[test]
    fn long_cells_are_cut_and_named_once() {
        let long = Cell::Text("é".repeat(40_000).into_bytes());
        let mut truncated = Vec::new();
        let cells = vec![("a".to_owned(), long.clone()), ("b".to_owned(), Cell::Null)];
        let shown = row(&cells, cell_max_bytes(32), &mut truncated);
        row(&cells, cell_max_bytes(32), &mut truncated);
        assert_eq!(shown.0[0].1.as_ref().unwrap().len(), 65_536);
        assert_eq!(truncated, ["a"]);
    }

    #[test]
    fn many_cells_are_cut_sooner() {
        assert_eq!((cell_max_bytes(0), cell_max_bytes(32), cell_max_bytes(33)), (65_536, 65_536, 63_550));
        assert_eq!(cell_max_bytes(6_000), 349);
    }
}
