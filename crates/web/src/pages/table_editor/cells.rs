//! Cells as the editor's script reads them: `null`, a text, `{"n": "12"}` for a number, and `{"blob": …}` or `{"cut": …}` for what cannot
//! be edited in the grid.

use branchyard_domain::entities::{Cell, EditedValue};
use serde_json::{Value, json};

use crate::rows::{CellKind, CellView};

/// Characters of a text that can be edited in the grid.
pub(super) const MOST_CHARACTERS: usize = 1_000;

/// Converts a cell of a page of rows.
pub(super) fn of_view(cell: &CellView) -> Value {
    match cell.kind {
        CellKind::Null => Value::Null,
        CellKind::Number => json!({"n": cell.text}),
        CellKind::Blob => json!({"blob": cell.text}),
        CellKind::Text if cell.is_cut => json!({"cut": cell.text}),
        CellKind::Text => json!(cell.text),
    }
}

/// Converts a stored cell.
pub(super) fn of_cell(cell: &Cell) -> Value {
    of_view(&CellView::of(cell, MOST_CHARACTERS))
}

/// Converts the value of an edit.
pub(super) fn of_edited(value: &EditedValue) -> Value {
    match value {
        EditedValue::Null => Value::Null,
        EditedValue::Number(number) => json!({"n": number.as_str()}),
        EditedValue::Text(text) => of_cell(&Cell::Text(text.clone().into_bytes())),
        EditedValue::Blob(bytes) => of_cell(&Cell::Blob(bytes.clone())),
    }
}

/// Converts a cell of a row that may not exist.
pub(super) fn or_absent<T>(value: Option<&T>, convert: impl Fn(&T) -> Value) -> Value {
    value.map_or_else(|| json!({"absent": true}), convert)
}

/// Returns the affinity of a column by its declared type, as SQLite determines it (datatype3, §3.1).
pub(super) fn affinity(declared_type: &str) -> &'static str {
    let words = declared_type.to_ascii_uppercase();
    let has = |part: &str| words.contains(part);
    if has("INT") {
        "integer"
    } else if has("CHAR") || has("CLOB") || has("TEXT") {
        "text"
    } else if has("BLOB") || words.is_empty() {
        "blob"
    } else if has("REAL") || has("FLOA") || has("DOUB") {
        "real"
    } else {
        "numeric"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinities_follow_the_words_of_the_type() {
        let cases = [
            ("INTEGER", "integer"),
            ("bigint unsigned", "integer"),
            ("CHARINT", "integer"),
            ("varchar(20)", "text"),
            ("", "blob"),
            ("double precision", "real"),
            ("DECIMAL(10,2)", "numeric"),
            ("DATE", "numeric"),
        ];
        for (declared, wanted) in cases {
            assert_eq!(affinity(declared), wanted, "{declared}");
        }
    }

    #[test]
    fn null_empty_text_and_numbers_differ() {
        assert_eq!(of_cell(&Cell::Null), Value::Null);
        assert_eq!(of_cell(&Cell::Text(Vec::new())), json!(""));
        assert_eq!(of_cell(&Cell::Integer(i64::MAX)), json!({"n": "9223372036854775807"}));
        assert_eq!(of_cell(&Cell::Blob(vec![0; 3])), json!({"blob": "binary, 3 bytes"}));
        let long = "x".repeat(MOST_CHARACTERS + 1);
        assert_eq!(of_cell(&Cell::Text(long.into_bytes())), json!({"cut": "x".repeat(MOST_CHARACTERS)}));
    }
}
