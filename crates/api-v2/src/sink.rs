//! Collects the rows of a read as JSON, up to a number of rows and of bytes.

use branchyard_domain::ports::{Column, Flow, RowSink, ValueRef};
use serde_json::value::RawValue;

use crate::convert::{REPLACED, cell_text, query_column, storage_class};
use crate::wire;

/// Bytes kept free for what stands around rows and columns.
const AROUND: usize = 4 << 10;

/// Rows as JSON.
pub(crate) struct JsonSink {
    columns: Vec<Column>,
    kinds: Vec<Option<&'static str>>,
    rows: Vec<u8>,
    count: u64,
    limit: u64,
    limit_is_the_callers: bool,
    budget: usize,
    cut: bool,
    replaced: bool,
}

impl JsonSink {
    /// At most `limit` rows in at most `max_bytes`. A limit that the caller chose ends a result in good order.
    pub(crate) fn new(limit: u64, limit_is_the_callers: bool, max_bytes: usize) -> Self {
        Self {
            columns: Vec::new(),
            kinds: Vec::new(),
            rows: vec![b'['],
            count: 0,
            limit,
            limit_is_the_callers,
            budget: max_bytes.saturating_sub(AROUND),
            cut: false,
            replaced: false,
        }
    }

    fn write_row(&mut self, row: &[ValueRef<'_>]) {
        self.rows.push(b'[');
        for (index, value) in row.iter().enumerate() {
            if index > 0 {
                self.rows.push(b',');
            }
            let text = cell_text(*value);
            self.replaced |= matches!(value, ValueRef::Text(bytes) if std::str::from_utf8(bytes).is_err());
            // Writing to a vector cannot fail.
            let _ = serde_json::to_writer(&mut self.rows, &text);
        }
        self.rows.push(b']');
    }

    fn note_kinds(&mut self, row: &[ValueRef<'_>]) {
        for (kind, value) in self.kinds.iter_mut().zip(row) {
            if kind.is_none() {
                *kind = storage_class(*value);
            }
        }
    }

    /// The result of a read that did not fail.
    pub(crate) fn finish(mut self) -> wire::QueryResult {
        self.rows.push(b']');
        let columns = self.columns.into_iter().zip(self.kinds).map(|(column, kind)| query_column(column, kind));
        wire::QueryResult {
            columns: columns.collect(),
            rows: raw(String::from_utf8(self.rows).unwrap_or_default()),
            status: if self.cut { wire::QueryStatus::RowLimit } else { wire::QueryStatus::Success },
            message: self.cut.then(|| format!("only the first {} rows are returned", self.count)),
            warnings: if self.replaced { vec![REPLACED.to_owned()] } else { Vec::new() },
        }
    }
}

fn raw(json: String) -> Box<RawValue> {
    RawValue::from_string(json).unwrap_or_else(|error| {
        tracing::error!(%error, "rows were not JSON");
        RawValue::NULL.to_owned()
    })
}

/// The result of a read that failed.
pub(crate) fn failed(status: wire::QueryStatus, message: String) -> wire::QueryResult {
    wire::QueryResult {
        columns: Vec::new(),
        rows: raw("[]".to_owned()),
        status,
        message: Some(message),
        warnings: Vec::new(),
    }
}

impl RowSink for JsonSink {
    fn columns(&mut self, columns: &[Column]) -> Flow {
        self.columns = columns.to_vec();
        self.kinds = vec![None; columns.len()];
        // Escapes make a name at most six times as long.
        let bytes: usize = columns
            .iter()
            .map(|column| {
                let declared = column.declared_type.as_ref().map_or(0, String::len);
                100 + 6 * (column.name.len() + column.source_table.len() + declared)
            })
            .sum();
        self.budget = self.budget.saturating_sub(bytes);
        Flow::Continue
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> Flow {
        if self.count >= self.limit {
            self.cut = !self.limit_is_the_callers;
            return Flow::Stop;
        }
        let before = self.rows.len();
        if self.count > 0 {
            self.rows.push(b',');
        }
        self.write_row(row);
        if self.rows.len() > self.budget {
            self.rows.truncate(before);
            self.cut = true;
            return Flow::Stop;
        }
        self.note_kinds(row);
        self.count += 1;
        if self.limit_is_the_callers && self.count == self.limit { Flow::Stop } else { Flow::Continue }
    }
}

#[cfg(test)]
mod tests {
    use super::JsonSink;
    use branchyard_domain::ports::{Column, Flow, RowSink, ValueRef};

    fn column(name: &str, declared: Option<&str>) -> Column {
        Column {
            name: name.into(),
            declared_type: declared.map(Into::into),
            is_primary_key: false,
            source_table: String::new(),
        }
    }

    fn rows(mut sink: JsonSink, count: i64) -> (serde_json::Value, u32) {
        assert_eq!(sink.columns(&[column("a", None), column("b", Some("int"))]), Flow::Continue);
        let mut taken = 0;
        for n in 0..count {
            taken += 1;
            let first = if n == 0 { ValueRef::Null } else { ValueRef::Real(2.0) };
            if sink.row(&[first, ValueRef::Integer(n)]) == Flow::Stop {
                break;
            }
        }
        (serde_json::to_value(sink.finish()).unwrap(), taken)
    }

    #[test]
    fn types_come_from_the_declaration_or_the_first_value() {
        let (result, _) = rows(JsonSink::new(10, true, 1 << 20), 2);
        assert_eq!(result["columns"][0]["type"], "REAL");
        assert_eq!(result["columns"][1]["type"], "INT");
        assert_eq!(result["rows"], serde_json::json!([[null, "0"], ["2.0", "1"]]));
        assert_eq!(result["status"], "success");
        assert!(result.get("message").is_none());
    }

    #[test]
    fn the_callers_own_limit_is_success_and_ours_is_row_limit() {
        let (result, taken) = rows(JsonSink::new(2, true, 1 << 20), 5);
        assert_eq!((result["status"].as_str().unwrap(), taken), ("success", 2));
        let (result, taken) = rows(JsonSink::new(2, false, 1 << 20), 5);
        assert_eq!((result["status"].as_str().unwrap(), taken), ("row_limit", 3));
        assert_eq!(result["message"], "only the first 2 rows are returned");
        let (result, _) = rows(JsonSink::new(2, false, 1 << 20), 2);
        assert_eq!(result["status"], "success");
    }

    #[test]
    fn bytes_end_a_result_with_the_rows_that_fit() {
        let (result, _) = rows(JsonSink::new(100, true, super::AROUND + 300), 100);
        assert_eq!(result["status"], "row_limit");
        assert!(result["rows"].as_array().unwrap().len() < 100);
    }
}
