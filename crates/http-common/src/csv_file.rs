//! A table as comma-separated values, written as it is read.

use branchyard_domain::ports::{Column, Flow, RowSink, ValueRef};

use crate::csv::{csv_header, csv_row};
use crate::download::DownloadWriter;
use crate::row_out::RowOut as _;

/// Writes rows to a download.
pub struct CsvFile<T> {
    /// Where they go; to be ended once all are there.
    pub writer: DownloadWriter<T>,
    /// Whether the client is gone.
    pub gone: bool,
}

impl<T> CsvFile<T> {
    /// With a byte order mark where one is wanted.
    pub fn new(mut writer: DownloadWriter<T>, include_bom: bool) -> Self {
        if include_bom {
            writer.buffer().extend_from_slice("\u{feff}".as_bytes());
        }
        Self { writer, gone: false }
    }
}

impl<T> RowSink for CsvFile<T> {
    fn columns(&mut self, columns: &[Column]) -> Flow {
        csv_header(self.writer.buffer(), columns);
        Flow::Continue
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> Flow {
        self.gone = !csv_row(&mut self.writer, row);
        if self.gone { Flow::Stop } else { Flow::Continue }
    }
}
