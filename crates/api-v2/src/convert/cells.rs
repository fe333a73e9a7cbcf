//! Cells as text (v2 §6.3).

use std::borrow::Cow;

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::ValueRef;

use crate::wire;

/// Bytes after which a cell of a diff, a conflict or a key is cut.
const CELL_MAX_BYTES: usize = 64 << 10;

/// The warning for text that is not UTF-8.
pub(crate) const REPLACED: &str = "some text is not valid UTF-8; invalid bytes are shown as U+FFFD";

/// The shortest decimal that reads back to the same double, with a point or an exponent.
pub(crate) fn real(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "Inf" } else { "-Inf" }.to_owned();
    }
    let text = format!("{value:?}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}

/// A value as a JSON cell; `None` is NULL.
pub(crate) fn cell_text(value: ValueRef<'_>) -> Option<Cow<'_, str>> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string().into()),
        ValueRef::Real(number) => Some(real(number).into()),
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes)),
        ValueRef::Blob(_) => Some("<binary>".into()),
    }
}

fn borrowed(cell: &Cell) -> ValueRef<'_> {
    match cell {
        Cell::Null => ValueRef::Null,
        Cell::Integer(number) => ValueRef::Integer(*number),
        Cell::Real(number) => ValueRef::Real(*number),
        Cell::Text(bytes) => ValueRef::Text(bytes),
        Cell::Blob(bytes) => ValueRef::Blob(bytes),
    }
}

/// A row as an object. Columns whose cell had to be cut are added to `truncated`, once each.
pub(super) fn row(cells: &[(String, Cell)], truncated: &mut Vec<String>) -> wire::Row {
    let cells = cells.iter().map(|(column, cell)| {
        let text = cell_text(borrowed(cell)).map(|text| {
            if text.len() <= CELL_MAX_BYTES {
                return text.into_owned();
            }
            if !truncated.contains(column) {
                truncated.push(column.clone());
            }
            let end = (0..=CELL_MAX_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.get(..end).unwrap_or_default().to_owned()
        });
        (column.clone(), text)
    });
    wire::Row(cells.collect())
}

#[cfg(test)]
mod tests {
    use super::{cell_text, real, row};
    use branchyard_domain::entities::Cell;
    use branchyard_domain::ports::ValueRef;

    #[test]
    fn reals_are_short_and_marked_as_reals() {
        let cases = [
            (2.0, "2.0"),
            (-0.5, "-0.5"),
            (1e100, "1e+100"),
            (1.5e300, "1.5e+300"),
            (1e-7, "1e-7"),
            (0.1, "0.1"),
            (f64::INFINITY, "Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (123_456_789.25, "123456789.25"),
        ];
        for (value, expected) in cases {
            assert_eq!(real(value), expected);
            if value.is_finite() {
                assert_eq!(real(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
            }
        }
    }

    #[test]
    fn cells() {
        assert_eq!(cell_text(ValueRef::Null), None);
        assert_eq!(cell_text(ValueRef::Integer(-42)).as_deref(), Some("-42"));
        assert_eq!(cell_text(ValueRef::Text(b"a\xff")).as_deref(), Some("a\u{fffd}"));
        assert_eq!(cell_text(ValueRef::Blob(b"x")).as_deref(), Some("<binary>"));
    }

    #[test]
    fn long_cells_are_cut_and_named_once() {
        let long = Cell::Text("é".repeat(40_000).into_bytes());
        let mut truncated = Vec::new();
        let cells = vec![("a".to_owned(), long.clone()), ("b".to_owned(), Cell::Null)];
        let shown = row(&cells, &mut truncated);
        row(&cells, &mut truncated);
        assert_eq!(shown.0[0].1.as_ref().unwrap().len(), 65_536);
        assert_eq!(truncated, ["a"]);
    }
}
