//! Keys of rows that callers write as texts.

use crate::entities::{Cell, TableKind, TableSchema};
use crate::errors::{RowHistoryError, RowKeyFault};

/// Returns the key of a row, in the order of the primary key and with the values that a column stores. `wanted` has the names of the
/// columns in any order and letter case, and the values as a caller writes them: numbers may be texts.
pub(super) fn row_key(table: &TableSchema, wanted: &[(String, Cell)]) -> Result<Vec<(String, Cell)>, RowHistoryError> {
    if table.kind == TableKind::View {
        return Err(RowHistoryError::IsView(table.name.clone()));
    }
    if table.primary_key.is_empty() {
        return Err(RowHistoryError::NoPrimaryKey(table.name.clone()));
    }
    let (mut key, mut faults) = (Vec::new(), Vec::new());
    for name in &table.primary_key {
        let mut given = wanted.iter().filter(|(column, _)| column.eq_ignore_ascii_case(name));
        match (given.next(), given.next()) {
            (None, _) => faults.push(RowKeyFault::Missing(name.clone())),
            (Some(_), Some(_)) => faults.push(RowKeyFault::Twice(name.clone())),
            (Some((_, Cell::Null)), None) => faults.push(RowKeyFault::Null(name.clone())),
            (Some((_, cell)), None) => {
                let declared = table.columns.iter().find(|column| column.name == *name);
                let declared = declared.map(|column| column.declared_type.as_str()).unwrap_or_default();
                key.push((name.clone(), stored(cell, declared)));
            }
        }
    }
    let is_known = |column: &str| table.primary_key.iter().any(|name| name.eq_ignore_ascii_case(column));
    faults
        .extend(wanted.iter().filter(|(name, _)| !is_known(name)).map(|(name, _)| RowKeyFault::Unknown(name.clone())));
    if faults.is_empty() { Ok(key) } else { Err(RowHistoryError::Key(faults)) }
}

/// Returns what a column of a declared type stores for a value. A column without a type stores numbers and texts as they are, and a
/// text that reads like a number is taken for one.
fn stored(cell: &Cell, declared: &str) -> Cell {
    let declared = declared.to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
    // The order of these rules is SQLite's.
    let is_integer = has(&["INT"]);
    let is_text = !is_integer && has(&["CHAR", "CLOB", "TEXT"]);
    let is_real = !is_integer && has(&["REAL", "FLOA", "DOUB"]) && !has(&["BLOB"]);
    match cell {
        Cell::Text(_) if is_text => cell.clone(),
        Cell::Text(text) => match std::str::from_utf8(text).ok().and_then(number) {
            Some(Cell::Integer(integer)) if is_real => Cell::Real(as_real(integer)),
            Some(number) => number,
            None => cell.clone(),
        },
        other => other.clone(),
    }
}

/// Parses a number as it is shown: digits, or a real number. A real number without a fraction is stored as an integer.
fn number(text: &str) -> Option<Cell> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && let Ok(integer) = text.parse()
    {
        return Some(Cell::Integer(integer));
    }
    let is_real = digits.bytes().next().is_some_and(|byte| byte.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    let real: f64 = if is_real || matches!(text, "Inf" | "-Inf") { text.parse().ok()? } else { return None };
    // Up to here, integers and real numbers are the same.
    let is_whole = real.fract() == 0.0 && real.abs() < 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
    Some(if is_whole { Cell::Integer(real as i64) } else { Cell::Real(real) })
}

#[expect(clippy::cast_precision_loss, reason = "a column of real numbers loses it, too")]
fn as_real(integer: i64) -> f64 {
    integer as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entities::TableColumn;

    fn table(key: &[(&str, &str)], kind: TableKind) -> TableSchema {
        let column = |(name, declared): &(&str, &str)| TableColumn {
            name: (*name).to_owned(),
            declared_type: (*declared).to_owned(),
            nullable: false,
            default: None,
            in_primary_key: true,
            is_generated: false,
        };
        TableSchema {
            name: "t".to_owned(),
            kind,
            columns: key.iter().map(column).collect(),
            primary_key: key.iter().map(|(name, _)| (*name).to_owned()).collect(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            triggers: Vec::new(),
            create_statement: String::new(),
        }
    }

    fn text(text: &str) -> Cell {
        Cell::Text(text.as_bytes().to_vec())
    }

    #[test]
    fn values_are_those_that_the_column_stores() {
        for (declared, given, expected) in [
            ("INTEGER", "42", Cell::Integer(42)),
            ("bigint", "-7", Cell::Integer(-7)),
            ("INTEGER", "4.0", Cell::Integer(4)),
            ("INTEGER", "1e3", Cell::Integer(1_000)),
            ("INTEGER", "nan", text("nan")),
            ("INTEGER", "9223372036854775808", Cell::Real(9_223_372_036_854_775_808.0)),
            ("VARCHAR(9)", "007", text("007")),
            ("TEXT", "1.10", text("1.10")),
            ("REAL", "2", Cell::Real(2.0)),
            ("DOUBLE", "2.5", Cell::Real(2.5)),
            ("REAL", "-Inf", Cell::Real(f64::NEG_INFINITY)),
            ("NUMERIC", "2.5", Cell::Real(2.5)),
            ("", "5", Cell::Integer(5)),
            ("", "five", text("five")),
            ("DATE", "2026-01-02", text("2026-01-02")),
            ("INTEGER", "", text("")),
            ("INTEGER", "-", text("-")),
        ] {
            let key =
                row_key(&table(&[("id", declared)], TableKind::Table), &[("ID".to_owned(), text(given))]).unwrap();
            assert_eq!(key, [("id".to_owned(), expected)], "{declared} {given}");
        }
        let bytes = Cell::Blob(vec![1, 2]);
        assert_eq!(stored(&bytes, "INTEGER"), bytes);
    }

    #[test]
    fn all_faults_of_a_key_are_found() {
        let table_of_two = table(&[("a", "TEXT"), ("b", "INTEGER")], TableKind::Table);
        let given = [("x".to_owned(), text("1")), ("B".to_owned(), Cell::Null)];
        let refused = row_key(&table_of_two, &given);
        let faults = ["Missing a", "Null b", "Unknown x"];
        let Err(RowHistoryError::Key(found)) = refused else { panic!("{refused:?}") };
        assert_eq!(found.len(), faults.len(), "{found:?}");
        let twice = [("a".to_owned(), text("1")), ("A".to_owned(), text("1")), ("b".to_owned(), text("1"))];
        assert!(matches!(row_key(&table_of_two, &twice), Err(RowHistoryError::Key(found)) if found.len() == 1));
        let ordered = [("b".to_owned(), text("1")), ("a".to_owned(), text("2"))];
        let key = row_key(&table_of_two, &ordered).unwrap();
        assert_eq!(key, [("a".to_owned(), text("2")), ("b".to_owned(), Cell::Integer(1))]);
        assert!(matches!(row_key(&table(&[], TableKind::Table), &[]), Err(RowHistoryError::NoPrimaryKey(_))));
        assert!(matches!(row_key(&table(&[], TableKind::View), &[]), Err(RowHistoryError::IsView(_))));
    }
}
