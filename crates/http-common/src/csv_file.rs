//! A table as a CSV file, written while the table is read.

use branchyard_domain::ports::{Column, RowSink, ValueRef};
use std::ops::ControlFlow;

use crate::csv::{write_header, write_row};
use crate::download::DownloadWriter;
use crate::row_out::RowOut as _;

/// A sink that writes rows to a download.
pub struct CsvFile<T> {
    /// The download. The caller has to end it after the last row.
    pub writer: DownloadWriter<T>,
    /// Whether the client is gone.
    pub gone: bool,
    /// Whether texts that a spreadsheet may take for formulas are protected.
    pub is_safe: bool,
}

impl<T> CsvFile<T> {
    /// Creates the sink. Writes a byte order mark first if `include_bom` is set.
    pub fn new(mut writer: DownloadWriter<T>, include_bom: bool) -> Self {
        if include_bom {
            writer.buffer().extend_from_slice("\u{feff}".as_bytes());
        }
        Self { writer, gone: false, is_safe: false }
    }
}

impl<T> RowSink for CsvFile<T> {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        write_header(self.writer.buffer(), columns, self.is_safe);
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.gone = !write_row(&mut self.writer, row, self.is_safe);
        if self.gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
