//! A table as comma-separated values, written as it is read.

use branchyard_api_common::{DownloadWriter, csv_header, csv_row};
use branchyard_domain::ports::{Column, Flow, RowSink, ValueRef};

/// Writes rows to a download.
pub(crate) struct CsvFile {
    pub(crate) writer: DownloadWriter<()>,
    /// The client is gone.
    pub(crate) gone: bool,
}

impl CsvFile {
    /// With a byte order mark where one is wanted.
    pub(crate) fn new(mut writer: DownloadWriter<()>, include_bom: bool) -> Self {
        if include_bom {
            writer.buffer().extend_from_slice("\u{feff}".as_bytes());
        }
        Self { writer, gone: false }
    }
}

impl RowSink for CsvFile {
    fn columns(&mut self, columns: &[Column]) -> Flow {
        csv_header(self.writer.buffer(), columns);
        Flow::Continue
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> Flow {
        csv_row(self.writer.buffer(), row);
        self.gone = !self.writer.flush_if_due();
        if self.gone { Flow::Stop } else { Flow::Continue }
    }
}
