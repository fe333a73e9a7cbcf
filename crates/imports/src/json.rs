//! `json`: an array of objects, an object with the single key `rows` that holds such an array, or a sequence of objects.
//!
//! Our own splitter cuts the file into records, so that memory is bounded, every record has its line, and an invalid record
//! does not hide those after it. `serde_json` parses each record.
//!
//! Memory: a fixed buffer and the longest record.

mod layout;
mod record;
mod split;

use std::io::Read;

pub(crate) use self::layout::{Layout, layout};
use self::record::RecordParser;
pub(crate) use self::record::{too_deep, twice};
use self::split::{RecordText, Splitter};
use crate::columns::Columns;
use crate::error::{FileError, RowError, RowErrors};
use crate::format::FileLimits;
use crate::typed::{Record, Records};

/// A reader that returns a JSON file record by record.
pub(crate) struct JsonRecords<R> {
    splitter: Splitter<R>,
    parser: RecordParser,
    /// Whether row errors count records instead of lines, because the file has one line.
    numbered: bool,
    number: u64,
}

impl<R: Read> JsonRecords<R> {
    /// Creates a reader. `columns` are those found by an earlier pass.
    pub(crate) fn new(input: R, layout: Layout, columns: &[String], limits: FileLimits) -> Self {
        Self {
            splitter: Splitter::new(input, layout.shape, limits.record_bytes()),
            parser: RecordParser { columns: Columns::known(columns), limits },
            numbered: layout.one_line,
            number: 0,
        }
    }

    fn next_piece(&mut self) -> Result<Option<RecordText<'_>>, FileError> {
        self.number += 1;
        let (numbered, number) = (self.numbered, self.number);
        match self.splitter.next_piece() {
            Ok(piece) => Ok(piece.map(|piece| if numbered { RecordText { line: number, ..piece } } else { piece })),
            Err(FileError::File { line: Some(_), detail }) if numbered => Err(FileError::at(number, detail)),
            Err(error) => Err(error),
        }
    }
}

impl<R: Read> Records for JsonRecords<R> {
    fn columns(&self) -> &[String] {
        self.parser.columns.names()
    }

    fn next_record(&mut self, record: &mut Record, errors: &mut RowErrors) -> Result<bool, FileError> {
        // Moves the parser out while the splitter's text is borrowed.
        let mut parser = std::mem::take(&mut self.parser);
        let found = loop {
            match self.next_piece() {
                Err(error) => break Err(error),
                Ok(None) => break Ok(false),
                Ok(Some(RecordText { line, text: None })) => {
                    let detail = format!("the record is longer than {} bytes", parser.limits.record_bytes());
                    errors.push(RowError::new(line, None, detail));
                }
                Ok(Some(RecordText { line, text: Some(text) })) => {
                    record.begin(line);
                    match parser.parse(text, record, errors) {
                        Ok(true) => break Ok(true),
                        Ok(false) => {}
                        Err(error) => break Err(error),
                    }
                }
            }
        };
        self.parser = parser;
        found
    }
}

#[cfg(test)]
mod tests;
