//! Tables as the files of a ZIP archive, written as they are read.

use std::io::{self, Write};

use branchyard_api_common::{DownloadWriter, csv_header, csv_row};
use branchyard_domain::ports::{Column, Flow, RowSink, ValueRef};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, StreamWriter, ZipWriter};

/// What a name in an archive must not hold.
const UNFIT: &AsciiSet = &CONTROLS.add(b'/').add(b'\\').add(b'%');

/// The file of a table.
pub(crate) fn file_name(table: &str) -> String {
    let encoded = utf8_percent_encode(table, UNFIT).to_string();
    match encoded.strip_prefix('.') {
        Some(rest) => format!("%2E{rest}.csv"),
        None => format!("{encoded}.csv"),
    }
}

/// A download as something to write to; it breaks when the client is gone.
struct Pipe(DownloadWriter<()>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.buffer().extend_from_slice(bytes);
        if self.0.flush_if_due() { Ok(bytes.len()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An archive under way.
pub(crate) struct Archive(ZipWriter<StreamWriter<Pipe>>);

impl Archive {
    pub(crate) fn new(writer: DownloadWriter<()>) -> Self {
        Self(ZipWriter::new_stream(Pipe(writer)))
    }

    /// Begins the file of a table; its rows go to the sink.
    ///
    /// # Errors
    /// When the client is gone.
    pub(crate) fn table(&mut self, table: &str) -> io::Result<TableFile<'_>> {
        // How long a table is shows only at its end.
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated).large_file(true);
        self.0.start_file(file_name(table), options).map_err(io::Error::other)?;
        Ok(TableFile { archive: &mut self.0, line: Vec::new(), gone: false })
    }

    /// Ends the archive and gives the download back.
    ///
    /// # Errors
    /// When the client is gone.
    pub(crate) fn finish(self) -> io::Result<DownloadWriter<()>> {
        Ok(self.0.finish().map_err(io::Error::other)?.into_inner().0)
    }
}

/// The file of one table.
pub(crate) struct TableFile<'a> {
    archive: &'a mut ZipWriter<StreamWriter<Pipe>>,
    line: Vec<u8>,
    /// The client is gone.
    pub(crate) gone: bool,
}

impl TableFile<'_> {
    fn write_line(&mut self) -> Flow {
        let written = self.archive.write_all(&self.line);
        self.line.clear();
        self.gone |= written.is_err();
        if self.gone { Flow::Stop } else { Flow::Continue }
    }
}

impl RowSink for TableFile<'_> {
    fn columns(&mut self, columns: &[Column]) -> Flow {
        csv_header(&mut self.line, columns);
        self.write_line()
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> Flow {
        csv_row(&mut self.line, row);
        self.write_line()
    }
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn names_stay_inside_the_archive() {
        assert_eq!(file_name("tree"), "tree.csv");
        assert_eq!(file_name("../a\\b%"), "%2E.%2Fa%5Cb%25.csv");
        assert_eq!(file_name("bäume und mehr"), "b%C3%A4ume und mehr.csv");
    }
}
