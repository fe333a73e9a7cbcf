//! All tables of a commit as a SQL script, written while the tables are read.
//!
//! The script runs in SQLite, and as an import of type `sql`: it has neither transactions nor settings, and no statement is longer
//! than an import takes, unless a single row is.

use std::ops::ControlFlow;

use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Read};
use branchyard_domain::entities::TableSchema;
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::{Column, RowSink, ValueRef};
use branchyard_domain::usecases::ExportLimits;
use branchyard_domain::values::CommitHash;
use branchyard_exports::sql_script::insert_into;

use crate::cells::{write_integer, write_real};
use crate::download::{DownloadWriter, Ending};
use crate::row_out::{PIECE, RowOut};

/// Maximum rows of an `INSERT`, and the bytes after which another one begins.
const STATEMENT_ROWS: usize = 500;
const STATEMENT_BYTES: usize = 256 << 10;

/// Sends every table at a commit as a script. Stops without an error if the client disconnects. On an error the writer is dropped
/// without an ending, which aborts a download that has begun.
///
/// # Errors
/// As [`branchyard_domain::usecases::Exports::table`].
pub(crate) fn send_script(
    hub: &Hub,
    access: &DatabaseAccess<Read>,
    at: &CommitHash,
    limits: &mut ExportLimits,
    mut writer: DownloadWriter<()>,
) -> Result<(), ReadError> {
    let exports = hub.exports();
    let (tables, objects) = exports.definitions(access, at)?;
    for table in &tables {
        define(&mut writer, &table.create_statement);
        let mut rows = Inserts::new(table, writer);
        exports.table(access, at, &table.name, limits, &mut rows)?;
        rows.end_statement();
        if rows.gone {
            return Ok(());
        }
        writer = rows.out;
    }
    for object in &objects {
        define(&mut writer, &object.create_statement);
    }
    writer.end(Ending::Whole(()));
    Ok(())
}

fn define(out: &mut impl RowOut, statement: &str) {
    out.buffer().extend_from_slice(statement.trim_end().as_bytes());
    // A comment may be the end of a definition.
    out.buffer().extend_from_slice(if statement.contains("--") { b"\n;\n" } else { b";\n" });
}

/// A sink that writes the rows of a table as `INSERT` statements.
struct Inserts<O> {
    out: O,
    head: Vec<u8>,
    /// For each column, whether it holds values of its own.
    is_stored: Vec<bool>,
    /// Rows and bytes of the open statement.
    rows: usize,
    bytes: usize,
    gone: bool,
}

impl<O: RowOut> Inserts<O> {
    fn new(table: &TableSchema, out: O) -> Self {
        let stored = table.columns.iter().filter(|column| !column.is_generated);
        let head = insert_into(&table.name, stored.map(|column| column.name.as_str())).into_bytes();
        let is_stored = table.columns.iter().map(|column| !column.is_generated).collect();
        Self { out, head, is_stored, rows: 0, bytes: 0, gone: false }
    }

    fn end_statement(&mut self) {
        if self.rows > 0 {
            self.out.buffer().extend_from_slice(b";\n");
        }
        (self.rows, self.bytes) = (0, 0);
    }

    fn write_row(&mut self, row: &[ValueRef<'_>]) -> bool {
        if self.rows >= STATEMENT_ROWS || self.bytes >= STATEMENT_BYTES {
            self.end_statement();
        }
        if self.rows == 0 {
            self.out.buffer().extend_from_slice(&self.head);
        } else {
            self.out.buffer().extend_from_slice(b",\n");
        }
        self.rows += 1;
        let mut sign = b'(';
        for (value, _) in row.iter().zip(&self.is_stored).filter(|(_, is_stored)| **is_stored) {
            self.out.buffer().push(sign);
            sign = b',';
            self.bytes += length(value);
            if !write_literal(&mut self.out, *value) {
                return false;
            }
        }
        self.out.buffer().push(b')');
        self.out.flush_if_due()
    }
}

impl<O: RowOut> RowSink for Inserts<O> {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.gone = !self.write_row(row);
        if self.gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn length(value: &ValueRef<'_>) -> usize {
    match value {
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 8,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len() + 8,
    }
}

/// Writes a value as an SQL literal. Returns `false` if the output accepts no more.
fn write_literal(out: &mut impl RowOut, value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::Null => out.buffer().extend_from_slice(b"NULL"),
        // SQLite reads the digits of this one as a real number, to which the sign applies afterwards.
        ValueRef::Integer(i64::MIN) => out.buffer().extend_from_slice(b"(-9223372036854775807-1)"),
        ValueRef::Integer(number) => write_integer(out.buffer(), number),
        ValueRef::Real(number) if number.is_finite() => write_real(out.buffer(), number),
        ValueRef::Real(number) => out.buffer().extend_from_slice(if number > 0.0 { b"9e999" } else { b"-9e999" }),
        ValueRef::Text(text) => return write_text(out, text),
        ValueRef::Blob(bytes) => return write_blob(out, bytes),
    }
    true
}

/// Writes text. A literal of text can have neither NUL nor bytes that are not UTF-8.
fn write_text(out: &mut impl RowOut, text: &[u8]) -> bool {
    if text.contains(&0) || std::str::from_utf8(text).is_err() {
        out.buffer().extend_from_slice(b"CAST(");
        let goes_on = write_blob(out, text);
        out.buffer().extend_from_slice(b" AS TEXT)");
        return goes_on;
    }
    out.buffer().push(b'\'');
    for piece in text.chunks(PIECE) {
        for byte in piece {
            if *byte == b'\'' {
                out.buffer().push(b'\'');
            }
            out.buffer().push(*byte);
        }
        if piece.len() == PIECE && !out.flush_if_due() {
            return false;
        }
    }
    out.buffer().push(b'\'');
    true
}

fn write_blob(out: &mut impl RowOut, bytes: &[u8]) -> bool {
    out.buffer().extend_from_slice(b"X'");
    for piece in bytes.chunks(PIECE) {
        let hex = data_encoding::HEXUPPER.encode(piece);
        out.buffer().extend_from_slice(hex.as_bytes());
        if piece.len() == PIECE && !out.flush_if_due() {
            return false;
        }
    }
    out.buffer().push(b'\'');
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals() {
        let values: [(ValueRef<'_>, &str); 10] = [
            (ValueRef::Null, "NULL"),
            (ValueRef::Integer(-4), "-4"),
            (ValueRef::Integer(i64::MIN), "(-9223372036854775807-1)"),
            (ValueRef::Real(2.0), "2.0"),
            (ValueRef::Real(f64::INFINITY), "9e999"),
            (ValueRef::Real(f64::NEG_INFINITY), "-9e999"),
            (ValueRef::Text(b"it's"), "'it''s'"),
            (ValueRef::Text(b"a\0b"), "CAST(X'610062' AS TEXT)"),
            (ValueRef::Text(b"\xff"), "CAST(X'FF' AS TEXT)"),
            (ValueRef::Blob(b"ab"), "X'6162'"),
        ];
        for (value, expected) in values {
            let mut out = Vec::new();
            assert!(write_literal(&mut out, value));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn definitions_end_even_after_a_comment() {
        let mut out = Vec::new();
        define(&mut out, "CREATE TABLE t (a) -- note\n");
        define(&mut out, "CREATE TABLE u (a)");
        assert_eq!(String::from_utf8(out).unwrap(), "CREATE TABLE t (a) -- note\n;\nCREATE TABLE u (a);\n");
    }
}
