//! Results of statements as JSON, written row by row.

use branchyard_domain::ports::{Column, RowSink, StatementReport, ValueRef};
use serde_json::json;
use std::ops::ControlFlow;

use super::errors::StatementError;
use super::values::{append, write};

/// Appends the columns as JSON.
fn columns_json(columns: &[Column], out: &mut Vec<u8>) {
    let told: Vec<_> =
        columns.iter().map(|column| json!({"name": column.name, "decltype": column.declared_type})).collect();
    append(out, &told);
}

fn row_json(row: &[ValueRef<'_>], out: &mut Vec<u8>) {
    out.push(b'[');
    for (at, value) in row.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(*value, out);
    }
    out.push(b']');
}

/// Collects the result of a statement of a pipeline, up to a limit in bytes.
pub(crate) struct Collector {
    columns: Vec<u8>,
    rows: Vec<u8>,
    count: u64,
    budget: usize,
    want_rows: bool,
    pub(crate) is_too_large: bool,
}

impl Collector {
    pub(crate) fn new(want_rows: bool, budget: usize) -> Self {
        Self { columns: b"[]".to_vec(), rows: Vec::new(), count: 0, budget, want_rows, is_too_large: false }
    }

    fn within(&mut self) -> ControlFlow<()> {
        self.is_too_large |= self.columns.len() + self.rows.len() > self.budget;
        if self.is_too_large { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Returns the result of a completed statement as JSON.
    pub(crate) fn result(&self, report: &StatementReport, millis: f64) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.columns.len() + self.rows.len() + 160);
        out.extend_from_slice(br#"{"cols":"#);
        out.extend_from_slice(&self.columns);
        out.extend_from_slice(br#","rows":["#);
        out.extend_from_slice(&self.rows);
        out.extend_from_slice(br#"],"affected_row_count":"#);
        append(&mut out, &report.rows_affected);
        out.extend_from_slice(br#","last_insert_rowid":"#);
        append(&mut out, &report.last_insert_rowid.map(|id| id.to_string()));
        out.extend_from_slice(br#","rows_read":"#);
        append(&mut out, &self.count);
        out.extend_from_slice(br#","rows_written":"#);
        append(&mut out, &report.rows_affected);
        out.extend_from_slice(br#","query_duration_ms":"#);
        append(&mut out, &millis);
        out.push(b'}');
        out
    }
}

impl RowSink for Collector {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        self.columns.clear();
        columns_json(columns, &mut self.columns);
        self.within()
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.count += 1;
        if !self.want_rows {
            return ControlFlow::Continue(());
        }
        if !self.rows.is_empty() {
            self.rows.push(b',');
        }
        row_json(row, &mut self.rows);
        self.within()
    }
}

/// A receiver of the lines of a cursor's answer. Each line ends with a newline.
pub(crate) trait LineSink {
    fn line(&mut self, line: Vec<u8>) -> ControlFlow<()>;
}

/// Writes a step of a cursor as lines.
pub(crate) struct StepLines<'a> {
    step: usize,
    want_rows: bool,
    lines: &'a mut dyn LineSink,
}

impl<'a> StepLines<'a> {
    pub(crate) fn new(step: usize, want_rows: bool, lines: &'a mut dyn LineSink) -> Self {
        Self { step, want_rows, lines }
    }

    pub(crate) fn end(self, report: &StatementReport) -> ControlFlow<()> {
        let last = report.last_insert_rowid.map(|id| id.to_string());
        let entry = json!({"type": "step_end", "affected_row_count": report.rows_affected, "last_insert_rowid": last});
        self.lines.line(line(&entry))
    }

    pub(crate) fn fail(self, error: &StatementError) -> ControlFlow<()> {
        let entry = json!({"type": "step_error", "step": self.step, "error": error_json(error)});
        self.lines.line(line(&entry))
    }
}

impl RowSink for StepLines<'_> {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        let mut out = format!(r#"{{"type":"step_begin","step":{},"cols":"#, self.step).into_bytes();
        columns_json(columns, &mut out);
        out.extend_from_slice(b"}\n");
        self.lines.line(out)
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        if !self.want_rows {
            return ControlFlow::Continue(());
        }
        let mut out = br#"{"type":"row","row":"#.to_vec();
        row_json(row, &mut out);
        out.extend_from_slice(b"}\n");
        self.lines.line(out)
    }
}

/// Serializes a value as a line.
pub(crate) fn line(value: &serde_json::Value) -> Vec<u8> {
    let mut out = Vec::new();
    append(&mut out, value);
    out.push(b'\n');
    out
}

/// Returns an error in its wire form.
pub(crate) fn error_json(error: &StatementError) -> serde_json::Value {
    json!({"message": error.message, "code": error.code})
}
