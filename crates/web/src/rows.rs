//! Rows of a result, as pages show them.

use branchyard_domain::entities;
use branchyard_domain::ports::{Column, RowSink, ValueRef};
use branchyard_http_common::real;
use std::ops::ControlFlow;

/// The kind of a cell's value. It determines how the cell looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellKind {
    Null,
    Number,
    Text,
    Blob,
}

#[derive(Debug, Clone)]
pub(crate) struct CellView {
    pub(crate) kind: CellKind,
    /// The text, possibly truncated. For a blob, its size.
    pub(crate) text: String,
    /// Whether the text is truncated.
    pub(crate) is_cut: bool,
}

impl CellView {
    /// Formats a value with at most `most` characters of text.
    pub(crate) fn new(value: ValueRef<'_>, most: usize) -> Self {
        let whole = |kind, text| Self { kind, text, is_cut: false };
        match value {
            ValueRef::Null => whole(CellKind::Null, "NULL".to_owned()),
            ValueRef::Integer(number) => whole(CellKind::Number, number.to_string()),
            ValueRef::Real(number) => whole(CellKind::Number, real(number)),
            ValueRef::Blob(bytes) => {
                let size = crate::format::size(i64::try_from(bytes.len()).unwrap_or(i64::MAX));
                whole(CellKind::Blob, format!("binary, {size}"))
            }
            ValueRef::Text(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                match text.char_indices().nth(most) {
                    None => whole(CellKind::Text, text.into_owned()),
                    Some((end, _)) => Self { kind: CellKind::Text, text: text[..end].to_owned(), is_cut: true },
                }
            }
        }
    }

    /// Formats a cell of a changed row.
    pub(crate) fn of(cell: &entities::Cell, most: usize) -> Self {
        let value = match cell {
            entities::Cell::Null => ValueRef::Null,
            entities::Cell::Integer(number) => ValueRef::Integer(*number),
            entities::Cell::Real(number) => ValueRef::Real(*number),
            entities::Cell::Text(bytes) => ValueRef::Text(bytes),
            entities::Cell::Blob(bytes) => ValueRef::Blob(bytes),
        };
        Self::new(value, most)
    }

    /// Returns the class in the style sheet.
    pub(crate) fn class(&self) -> &'static str {
        match self.kind {
            CellKind::Null => "null",
            CellKind::Number => "number",
            CellKind::Text => "",
            CellKind::Blob => "blob",
        }
    }

    /// Returns `true` if the text is the exact value, so that a filter finds the row again.
    pub(crate) fn is_findable(&self) -> bool {
        matches!(self.kind, CellKind::Number | CellKind::Text) && !self.is_cut
    }
}

/// Collects rows for a page.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    /// The columns, as soon as they are known.
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<CellView>>,
    most_characters: usize,
}

impl Grid {
    /// Creates a collector that truncates cells to this many characters.
    pub(crate) fn cutting(most_characters: usize) -> Self {
        Self { most_characters, ..Self::default() }
    }
}

impl RowSink for Grid {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        self.columns = columns.to_vec();
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.rows.push(row.iter().map(|value| CellView::new(*value, self.most_characters)).collect());
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::{CellKind, CellView};
    use branchyard_domain::ports::ValueRef;

    #[test]
    fn long_texts_are_cut_between_characters() {
        let cell = CellView::new(ValueRef::Text("äöü".as_bytes()), 2);
        assert_eq!((cell.text.as_str(), cell.is_cut, cell.is_findable()), ("äö", true, false));
        let cell = CellView::new(ValueRef::Text("äö".as_bytes()), 2);
        assert_eq!((cell.text.as_str(), cell.is_cut, cell.is_findable()), ("äö", false, true));
        let cell = CellView::new(ValueRef::Blob(&[0; 2048]), 2);
        assert_eq!((cell.text.as_str(), cell.kind), ("binary, 2.0 KiB", CellKind::Blob));
    }
}
