//! A table as a JSON array of objects, written while the table is read.

use std::ops::ControlFlow;

use branchyard_domain::ports::{Column, RowSink, ValueRef};

use crate::row_out::{RowOut, write_json_text, write_json_value};

/// A sink that writes rows as objects. The caller has to call [`JsonFile::end`] after the last row.
pub(crate) struct JsonFile<O> {
    pub(crate) out: O,
    /// Whether the client is gone.
    pub(crate) gone: bool,
    /// The text before each value: its name and a colon.
    names: Vec<Vec<u8>>,
    has_rows: bool,
}

impl<O: RowOut> JsonFile<O> {
    pub(crate) fn new(mut out: O) -> Self {
        out.buffer().push(b'[');
        Self { out, gone: false, names: Vec::new(), has_rows: false }
    }

    /// Writes the end of the array, and returns the output.
    pub(crate) fn end(mut self) -> O {
        self.out.buffer().extend_from_slice(if self.has_rows { b"\n]\n" } else { b"]\n" });
        self.out
    }

    fn write_row(&mut self, row: &[ValueRef<'_>]) -> bool {
        let before: &[u8] = if std::mem::replace(&mut self.has_rows, true) { b",\n{" } else { b"\n{" };
        self.out.buffer().extend_from_slice(before);
        for (at, (value, name)) in row.iter().zip(&self.names).enumerate() {
            if at > 0 {
                self.out.buffer().push(b',');
            }
            self.out.buffer().extend_from_slice(name);
            if !write_json_value(&mut self.out, *value) {
                return false;
            }
        }
        self.out.buffer().push(b'}');
        self.out.flush_if_due()
    }
}

impl<O: RowOut> RowSink for JsonFile<O> {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        let name = |column: &Column| {
            let mut name = Vec::new();
            write_json_text(&mut name, column.name.as_bytes());
            name.push(b':');
            name
        };
        self.names = columns.iter().map(name).collect();
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.gone = !self.write_row(row);
        if self.gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str) -> Column {
        Column { name: name.to_owned(), declared_type: None, is_primary_key: false, source_table: String::new() }
    }

    #[test]
    fn rows_are_objects() {
        let empty = JsonFile::new(Vec::new()).end();
        assert_eq!(String::from_utf8(empty).unwrap(), "[]\n");
        let mut file = JsonFile::new(Vec::new());
        assert!(file.columns(&[column("a\"b"), column("c")]).is_continue());
        assert!(file.row(&[ValueRef::Integer(1), ValueRef::Blob(b"ab")]).is_continue());
        assert!(file.row(&[ValueRef::Null, ValueRef::Real(f64::INFINITY)]).is_continue());
        let text = String::from_utf8(file.end()).unwrap();
        assert_eq!(text, "[\n{\"a\\\"b\":1,\"c\":\"YWI=\"},\n{\"a\\\"b\":null,\"c\":\"Inf\"}\n]\n");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read.as_array().unwrap().len(), 2);
    }
}
