//! A row sink that collects the rows of a read as JSON, with a row limit and a byte limit.

use branchyard_domain::ports::{Column, RowSink, ValueRef};
use std::ops::ControlFlow;

use crate::cells::{storage_class, write_integer, write_real};
use crate::row_out::{RowOut, write_json_text};

/// Bytes reserved for the envelope around columns and rows.
const AROUND: usize = 4 << 10;

/// The JSON form of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowShape {
    /// An array of cells.
    Arrays,
    /// An object of cells with its keys in column order. A repeated column name occurs once, at its first position, with its last
    /// value.
    Objects,
}

/// The limits of a collection.
#[derive(Debug, Clone, Copy)]
pub struct CollectLimits {
    /// Maximum number of rows.
    pub rows: u64,
    /// Whether the caller chose `rows`. A result that ends there is complete, not truncated.
    pub rows_are_the_callers: bool,
    /// Maximum number of bytes of the response.
    pub bytes: usize,
}

/// A sink that writes rows as JSON.
pub struct JsonRows {
    shape: RowShape,
    limits: CollectLimits,
    columns: Vec<Column>,
    kinds: Vec<Option<&'static str>>,
    keys: Vec<(String, usize)>,
    rows: Vec<u8>,
    count: u64,
    budget: usize,
    cut: bool,
    replaced: bool,
}

/// A collected result.
#[derive(Debug)]
pub struct CollectedJsonRows {
    /// The columns, each with the storage class of its first value that is not NULL.
    pub columns: Vec<(Column, Option<&'static str>)>,
    /// The rows as a JSON array.
    pub rows: String,
    /// The reason for the caller why rows are missing; `None` if the result is complete.
    pub cut: Option<String>,
    /// Whether a text was not valid UTF-8 and contains U+FFFD instead.
    pub replaced: bool,
}

impl JsonRows {
    /// Creates an empty collection.
    pub fn new(shape: RowShape, limits: CollectLimits) -> Self {
        Self {
            shape,
            limits,
            columns: Vec::new(),
            kinds: Vec::new(),
            keys: Vec::new(),
            rows: vec![b'['],
            count: 0,
            budget: limits.bytes.saturating_sub(AROUND),
            cut: false,
            replaced: false,
        }
    }

    /// Writes a row. Returns `false` if the row exceeds the byte limit; the row may then be incomplete.
    fn write_row(&mut self, row: &[ValueRef<'_>]) -> bool {
        let rows = &mut Limited { rows: &mut self.rows, most: self.budget };
        match self.shape {
            RowShape::Arrays => {
                rows.buffer().push(b'[');
                for (index, value) in row.iter().enumerate() {
                    if index > 0 {
                        rows.buffer().push(b',');
                    }
                    if !write_cell(rows, *value) {
                        return false;
                    }
                }
                rows.buffer().push(b']');
            }
            RowShape::Objects => {
                rows.buffer().push(b'{');
                for (index, (key, place)) in self.keys.iter().enumerate() {
                    if index > 0 {
                        rows.buffer().push(b',');
                    }
                    rows.buffer().extend_from_slice(key.as_bytes());
                    rows.buffer().push(b':');
                    if !write_cell(rows, row.get(*place).copied().unwrap_or(ValueRef::Null)) {
                        return false;
                    }
                }
                rows.buffer().push(b'}');
            }
        }
        let fits = rows.flush_if_due();
        self.replaced |= row.iter().any(
            |value| matches!(value, ValueRef::Text(bytes) if !bytes.is_ascii() && std::str::from_utf8(bytes).is_err()),
        );
        fits
    }

    fn note_kinds(&mut self, row: &[ValueRef<'_>]) {
        for (kind, value) in self.kinds.iter_mut().zip(row) {
            if kind.is_none() {
                *kind = storage_class(*value);
            }
        }
    }

    /// Returns the result. Call it only after a read that succeeded.
    pub fn finish(mut self) -> CollectedJsonRows {
        self.rows.push(b']');
        CollectedJsonRows {
            columns: self.columns.into_iter().zip(self.kinds).collect(),
            rows: text(self.rows),
            cut: self.cut.then(|| format!("only the first {} rows are returned", self.count)),
            replaced: self.replaced,
        }
    }
}

/// A row buffer with its byte limit.
struct Limited<'a> {
    rows: &'a mut Vec<u8>,
    most: usize,
}

impl RowOut for Limited<'_> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.rows
    }

    fn flush_if_due(&mut self) -> bool {
        self.rows.len() <= self.most
    }
}

fn write_cell(rows: &mut Limited<'_>, value: ValueRef<'_>) -> bool {
    let buffer = rows.buffer();
    match value {
        ValueRef::Null => buffer.extend_from_slice(b"null"),
        ValueRef::Integer(number) => {
            buffer.push(b'"');
            write_integer(buffer, number);
            buffer.push(b'"');
        }
        ValueRef::Real(number) => {
            buffer.push(b'"');
            write_real(buffer, number);
            buffer.push(b'"');
        }
        ValueRef::Text(text) => return write_json_text(rows, text),
        ValueRef::Blob(_) => buffer.extend_from_slice(b"\"<binary>\""),
    }
    true
}

/// Returns each distinct column name as JSON text, with the index of the last column of that name.
fn keys(columns: &[Column]) -> Vec<(String, usize)> {
    let mut places: std::collections::HashMap<&str, usize> = std::collections::HashMap::new();
    let mut keys: Vec<(String, usize)> = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        match places.get(column.name.as_str()).and_then(|place| keys.get_mut(*place)) {
            Some((_, last)) => *last = index,
            None => {
                places.insert(&column.name, keys.len());
                keys.push((serde_json::Value::from(column.name.as_str()).to_string(), index));
            }
        }
    }
    keys
}

#[expect(clippy::expect_used, reason = "`JsonRows` writes only JSON")]
fn text(json: Vec<u8>) -> String {
    String::from_utf8(json).expect("rows are UTF-8")
}

impl RowSink for JsonRows {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        self.columns = columns.to_vec();
        self.kinds = vec![None; columns.len()];
        if self.shape == RowShape::Objects {
            self.keys = keys(columns);
        }
        let written = |text: &str| serde_json::Value::from(text).to_string().len();
        let bytes: usize = columns
            .iter()
            .map(|column| {
                let declared = column.declared_type.as_deref().map_or(0, written);
                100 + written(&column.name) + written(&column.source_table) + declared
            })
            .sum();
        self.budget = self.budget.saturating_sub(bytes);
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        if self.count >= self.limits.rows {
            self.cut = !self.limits.rows_are_the_callers;
            return ControlFlow::Break(());
        }
        let before = self.rows.len();
        if self.count > 0 {
            self.rows.push(b',');
        }
        if !self.write_row(row) {
            self.rows.truncate(before);
            self.cut = true;
            return ControlFlow::Break(());
        }
        self.note_kinds(row);
        self.count += 1;
        let enough = self.limits.rows_are_the_callers && self.count == self.limits.rows;
        if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::{AROUND, CollectLimits, CollectedJsonRows, JsonRows, RowShape};
    use branchyard_domain::ports::{Column, RowSink, ValueRef};

    fn column(name: &str, declared: Option<&str>) -> Column {
        Column {
            name: name.into(),
            declared_type: declared.map(Into::into),
            is_primary_key: false,
            source_table: String::new(),
        }
    }

    fn limits(rows: u64, rows_are_the_callers: bool) -> CollectLimits {
        CollectLimits { rows, rows_are_the_callers, bytes: 1 << 20 }
    }

    fn collect(shape: RowShape, limits: CollectLimits, count: i64) -> (CollectedJsonRows, u32) {
        let mut rows = JsonRows::new(shape, limits);
        assert_eq!(rows.columns(&[column("a", None), column("b", Some("INT"))]), ControlFlow::Continue(()));
        let mut taken = 0;
        for n in 0..count {
            taken += 1;
            let first = if n == 0 { ValueRef::Null } else { ValueRef::Real(2.0) };
            if rows.row(&[first, ValueRef::Integer(n)]).is_break() {
                break;
            }
        }
        (rows.finish(), taken)
    }

    #[test]
    fn columns_come_with_the_class_of_their_first_value() {
        let (result, _) = collect(RowShape::Arrays, limits(10, true), 2);
        assert_eq!(result.columns.iter().map(|(_, kind)| *kind).collect::<Vec<_>>(), [Some("REAL"), Some("INTEGER")]);
        assert_eq!(result.rows, r#"[[null,"0"],["2.0","1"]]"#);
        assert_eq!(result.cut, None);
    }

    #[test]
    fn objects_keep_the_order_of_columns_and_each_name_once() {
        let mut rows = JsonRows::new(RowShape::Objects, limits(10, false));
        _ = rows.columns(&["z", "a\"", "z", "b"].map(|name| column(name, None)));
        _ = rows.row(&[1, 2, 3, 4].map(ValueRef::Integer));
        _ = rows.row(&[ValueRef::Null; 4]);
        let expected = r#"[{"z":"3","a\"":"2","b":"4"},{"z":null,"a\"":null,"b":null}]"#;
        assert_eq!(rows.finish().rows, expected);
    }

    #[test]
    fn the_callers_own_limit_ends_well_and_ours_cuts() {
        let (result, taken) = collect(RowShape::Arrays, limits(2, true), 5);
        assert_eq!((result.cut, taken), (None, 2));
        let (result, taken) = collect(RowShape::Arrays, limits(2, false), 5);
        assert_eq!((result.cut.as_deref(), taken), (Some("only the first 2 rows are returned"), 3));
        assert_eq!(collect(RowShape::Arrays, limits(2, false), 2).0.cut, None);
    }

    #[test]
    fn names_count_as_they_are_written() {
        let name = "n".repeat(100_000);
        let mut rows = JsonRows::new(
            RowShape::Objects,
            CollectLimits { rows: 10, rows_are_the_callers: true, bytes: AROUND + 100 + 2 * 100_100 },
        );
        _ = rows.columns(&[column(&name, None)]);
        assert_eq!(rows.row(&[ValueRef::Integer(1)]), ControlFlow::Continue(()));
        let result = rows.finish();
        assert_eq!((result.cut, result.rows.len()), (None, 100_010));
    }

    #[test]
    fn bytes_end_a_result_with_the_rows_that_fit() {
        let tight = CollectLimits { rows: 100, rows_are_the_callers: true, bytes: AROUND + 300 };
        let (result, taken) = collect(RowShape::Objects, tight, 100);
        assert!(result.cut.is_some() && taken < 100);
        serde_json::from_str::<Vec<serde_json::Value>>(&result.rows).unwrap();
    }
}
