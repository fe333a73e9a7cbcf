//! ZIP archives of tables, written while the tables are read.

use std::cell::Cell;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::rc::Rc;

use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Read};
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::{Column, RowSink, ValueRef};
use branchyard_domain::usecases::ExportLimits;
use branchyard_domain::values::CommitHash;
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, StreamWriter, ZipWriter};

use crate::csv::{write_header, write_row};
use crate::download::{DownloadWriter, Ending};
use crate::row_out::RowOut;

/// Returns the file name of a table. Percent-encodes control characters and everything that could leave the archive's folder. The
/// crate `percent-encoding` would also encode letters outside of ASCII.
fn file_name(table: &str) -> String {
    let mut name = String::new();
    for (at, letter) in table.char_indices() {
        if letter.is_ascii_control() || matches!(letter, '/' | '\\' | '%') || (at == 0 && letter == '.') {
            name.push_str(&format!("%{:02X}", u32::from(letter)));
        } else {
            name.push(letter);
        }
    }
    name + ".csv"
}

/// A writer to a download. Writing fails once the client is gone. After the archive was abandoned, all writes are discarded.
struct Pipe {
    writer: DownloadWriter<()>,
    abandoned: Rc<Cell<bool>>,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.abandoned.get() {
            return Ok(bytes.len());
        }
        self.writer.buffer().extend_from_slice(bytes);
        if self.writer.flush_if_due() { Ok(bytes.len()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends every table at a commit as a ZIP archive. With `is_safe`, texts that a spreadsheet may take for formulas are protected. Stops without an error if the client disconnects. On an error the writer is
/// dropped without an ending, which aborts a download that has begun.
///
/// # Errors
/// As [`branchyard_domain::usecases::Exports::table`].
pub fn send_archive(
    hub: &Hub,
    access: &DatabaseAccess<Read>,
    at: &CommitHash,
    is_safe: bool,
    limits: &mut ExportLimits,
    writer: DownloadWriter<()>,
) -> Result<(), ReadError> {
    let exports = hub.exports();
    let mut archive = ZipDownload::new(writer);
    for table in exports.tables(access, at)? {
        let Ok(mut file) = archive.table(&table, is_safe) else {
            archive.abandon();
            return Ok(());
        };
        let read = exports.table(access, at, &table, limits, &mut file);
        let gone = file.gone;
        if read.is_err() || gone {
            archive.abandon();
            return read;
        }
    }
    if let Ok(writer) = archive.finish() {
        writer.end(Ending::Whole(()));
    }
    Ok(())
}

/// A ZIP archive that is being written to a download.
struct ZipDownload {
    zip: ZipWriter<StreamWriter<Pipe>>,
    abandoned: Rc<Cell<bool>>,
}

impl ZipDownload {
    fn new(writer: DownloadWriter<()>) -> Self {
        let abandoned = Rc::new(Cell::new(false));
        let pipe = Pipe { writer, abandoned: Rc::clone(&abandoned) };
        Self { zip: ZipWriter::new_stream(pipe), abandoned }
    }

    /// Begins the file of a table and returns the sink for its rows.
    ///
    /// # Errors
    /// Fails if the client is gone.
    fn table(&mut self, table: &str, is_safe: bool) -> io::Result<TableFile<'_>> {
        // The size of the file is not known in advance, so the 64-bit format is used.
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated).large_file(true);
        self.zip.start_file(file_name(table), options).map_err(io::Error::other)?;
        Ok(TableFile { archive: &mut self.zip, buffer: Vec::new(), is_safe, gone: false })
    }

    /// Abandons the archive and discards all further writes. Dropping a `ZipWriter` writes the central directory, which would make
    /// a partial archive look complete.
    fn abandon(self) {
        self.abandoned.set(true);
    }

    /// Finishes the archive and returns the download's writer.
    ///
    /// # Errors
    /// Fails if the client is gone.
    fn finish(self) -> io::Result<DownloadWriter<()>> {
        Ok(self.zip.finish().map_err(io::Error::other)?.into_inner().writer)
    }
}

/// A sink that writes the rows of one table as CSV.
struct TableFile<'a> {
    archive: &'a mut ZipWriter<StreamWriter<Pipe>>,
    buffer: Vec<u8>,
    is_safe: bool,
    /// Whether the client is gone.
    gone: bool,
}

impl RowOut for TableFile<'_> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    fn flush_if_due(&mut self) -> bool {
        let written = self.archive.write_all(&self.buffer);
        self.buffer.clear();
        self.gone |= written.is_err();
        !self.gone
    }
}

impl RowSink for TableFile<'_> {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        write_header(&mut self.buffer, columns, self.is_safe);
        if self.flush_if_due() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        let is_safe = self.is_safe;
        if write_row(self, row, is_safe) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn names_stay_inside_the_archive() {
        assert_eq!(file_name("tree"), "tree.csv");
        assert_eq!(file_name("../a\\b%"), "%2E.%2Fa%5Cb%25.csv");
        assert_eq!(file_name("bäume und mehr"), "bäume und mehr.csv");
    }
}
