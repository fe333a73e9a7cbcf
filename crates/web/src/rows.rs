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
    /// Whether it is an image that browsers can show.
    pub(crate) is_image: bool,
}

/// Returns the media type of an image, by its first bytes. Only formats that cannot hold scripts are recognized.
pub(crate) fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

impl CellView {
    /// Formats a value with at most `most` characters of text.
    pub(crate) fn new(value: ValueRef<'_>, most: usize) -> Self {
        let whole = |kind, text| Self { kind, text, is_cut: false, is_image: false };
        match value {
            ValueRef::Null => whole(CellKind::Null, "NULL".to_owned()),
            ValueRef::Integer(number) => whole(CellKind::Number, number.to_string()),
            ValueRef::Real(number) => whole(CellKind::Number, real(number)),
            ValueRef::Blob(bytes) => {
                let size = crate::format::size(bytes.len());
                let image = image_type(bytes);
                let what = image.map_or("binary", |media| media.trim_start_matches("image/"));
                Self { is_image: image.is_some(), ..whole(CellKind::Blob, format!("{what}, {size}")) }
            }
            ValueRef::Text(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                match text.char_indices().nth(most) {
                    None => whole(CellKind::Text, text.into_owned()),
                    Some((end, _)) => Self { is_cut: true, ..whole(CellKind::Text, text[..end].to_owned()) },
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

/// Returns `true` if there is a number among the cells of a column, and nothing but numbers and NULL.
pub(crate) fn are_numbers<'a>(cells: impl Iterator<Item = &'a CellView>) -> bool {
    let mut kinds = cells.map(|cell| cell.kind).filter(|kind| *kind != CellKind::Null).peekable();
    kinds.peek().is_some() && kinds.all(|kind| kind == CellKind::Number)
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
    use super::{CellKind, CellView, image_type};
    use branchyard_domain::ports::ValueRef;

    #[test]
    fn long_texts_are_cut_between_characters() {
        let cell = CellView::new(ValueRef::Text("äöü".as_bytes()), 2);
        assert_eq!((cell.text.as_str(), cell.is_cut, cell.is_findable()), ("äö", true, false));
        let cell = CellView::new(ValueRef::Text("äö".as_bytes()), 2);
        assert_eq!((cell.text.as_str(), cell.is_cut, cell.is_findable()), ("äö", false, true));
        let cell = CellView::new(ValueRef::Blob(&[0; 2048]), 2);
        assert_eq!((cell.text.as_str(), cell.kind, cell.is_image), ("binary, 2.0 KiB", CellKind::Blob, false));
        let cell = CellView::new(ValueRef::Blob(b"GIF89a"), 2);
        assert_eq!((cell.text.as_str(), cell.is_image), ("gif, 6 bytes", true));
    }

    #[test]
    fn only_images_without_scripts_are_recognized() {
        assert_eq!(image_type(b"RIFF....WEBPVP8 "), Some("image/webp"));
        assert_eq!(image_type(b"\x89PNG\r\n\x1a\n"), Some("image/png"));
        for other in [&b"<svg xmlns='http://www.w3.org/2000/svg'>"[..], b"", b"GIF", b"RIFF....WAVE", b"%PDF-1.7"] {
            assert_eq!(image_type(other), None);
        }
    }
}
