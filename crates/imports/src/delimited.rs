//! `csv` and `psv`: delimited fields with a header.
//!
//! The reader is our own because the contract is stricter than common crates, which silently repair what it requires to be
//! reported: characters after a closing quote, a quote that is never closed, and the physical line of every defect.
//!
//! Memory: a fixed buffer and the longest record. Fields beyond those of the header and values beyond the limit are skipped.

mod machine;
mod record;

use std::io::Read;

pub use self::record::DelimitedRecord;

use self::machine::{FaultKind, FieldDefect, Machine};
use crate::columns::Columns;
use crate::encoding::Encoding;
use crate::error::{FileError, RowError, RowErrors};
use crate::format::FileLimits;
use crate::source::{Chunk, Source};

/// The delimiter between the fields of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Delimiter(char);

impl Delimiter {
    /// `,`
    pub const COMMA: Self = Self(',');
    /// `|`
    pub const PIPE: Self = Self('|');
    /// A tab.
    pub const TAB: Self = Self('\t');

    /// Creates a delimiter. Returns `None` for characters that have another meaning: `"`, the line ends and NUL.
    pub fn new(character: char) -> Option<Self> {
        (!matches!(character, '"' | '\r' | '\n' | '\0')).then_some(Self(character))
    }

    /// Returns the character.
    pub fn as_char(self) -> char {
        self.0
    }
}

/// A reader that returns a delimited file record by record.
#[derive(Debug)]
pub struct DelimitedReader<R> {
    source: Source<R>,
    encoding: Encoding,
    machine: Machine,
    record: DelimitedRecord,
    columns: Vec<String>,
    limits: FileLimits,
}

impl<R: Read> DelimitedReader<R> {
    /// Creates a reader of UTF-8 and reads the header. `input` needs no buffer of its own.
    ///
    /// # Errors
    /// [`FileError::File`] if there is no header, or if its names are empty, not distinct (ignoring case) or more than
    /// [`FileLimits::columns`]; [`FileError::Io`] if `input` fails.
    pub fn new(input: R, delimiter: Delimiter, limits: FileLimits) -> Result<Self, FileError> {
        Self::with_encoding(input, delimiter, Encoding::Utf8, limits)
    }

    /// Creates a reader of text in `encoding`, as [`DelimitedReader::new`] does.
    ///
    /// # Errors
    /// As [`DelimitedReader::new`].
    pub fn with_encoding(
        input: R,
        delimiter: Delimiter,
        encoding: Encoding,
        limits: FileLimits,
    ) -> Result<Self, FileError> {
        let mut reader = Self {
            source: Source::with_encoding(input, encoding),
            encoding,
            machine: Machine::new(delimiter, limits),
            record: DelimitedRecord::default(),
            columns: Vec::new(),
            limits,
        };
        reader.columns = reader.read_header(limits)?;
        reader.machine.keep_fields(reader.columns.len());
        Ok(reader)
    }

    /// Returns the names of the columns in the order of the file. There is at least one, and all are distinct and not empty.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the next record with one field per column, or `None` after the last. Defects of skipped records are added to
    /// `errors`.
    ///
    /// # Errors
    /// [`FileError::File`] for bytes that the encoding does not define; [`FileError::Io`] if the input fails. Neither can be recovered
    /// from.
    pub fn next_record(&mut self, errors: &mut RowErrors) -> Result<Option<&DelimitedRecord>, FileError> {
        while self.read_record()? {
            match self.defect() {
                Some(defect) => errors.push(defect),
                None => return Ok(Some(&self.record)),
            }
        }
        Ok(None)
    }

    fn read_header(&mut self, limits: FileLimits) -> Result<Vec<String>, FileError> {
        if !self.read_record()? {
            return Err(FileError::at(1, "the file has no header"));
        }
        let line = self.record.line();
        if let Some(fault) = self.machine.fault() {
            return Err(FileError::at(line, self.describe(fault.kind)));
        }
        if self.machine.fields() > limits.columns {
            let detail = format!("more than {} columns", limits.columns);
            return Err(FileError::at(line, detail));
        }
        let mut columns = Columns::default();
        for name in self.record.iter() {
            columns.add(name, limits).map_err(|fault| FileError::at(line, fault.detail))?;
        }
        Ok(columns.names().to_vec())
    }

    /// Reads to the end of the next record. Returns `false` if there is none.
    fn read_record(&mut self) -> Result<bool, FileError> {
        self.machine.begin(&mut self.record);
        loop {
            match self.source.chunk().map_err(FileError::Io)? {
                Chunk::Text(text) => {
                    let read = self.machine.feed(text, &mut self.record);
                    self.source.consume(read);
                    if self.machine.has_ended() {
                        return Ok(true);
                    }
                }
                Chunk::End => return Ok(self.machine.finish(&mut self.record)),
                Chunk::Foreign(found) => {
                    let detail = format!("the file is {found}, not {}", self.encoding.name());
                    return Err(FileError::at(1, detail));
                }
                Chunk::Invalid => {
                    let detail = format!("not valid {}", self.encoding.name());
                    return Err(FileError::at(self.machine.line(), detail));
                }
            }
        }
    }

    fn defect(&self) -> Option<RowError> {
        let line = self.record.line();
        if let Some(FieldDefect { field, kind }) = self.machine.fault() {
            let column = self.columns.get(field).map(String::as_str);
            return Some(RowError::new(line, column, self.describe(kind)));
        }
        let (found, expected) = (self.machine.fields(), self.columns.len());
        (found != expected).then(|| {
            let plural = if found == 1 { "" } else { "s" };
            let detail = format!("{found} field{plural}, the header has {expected}");
            RowError::new(line, None, detail)
        })
    }

    fn describe(&self, fault: FaultKind) -> String {
        match fault {
            FaultKind::AfterQuote => "characters after a closing quote".to_owned(),
            FaultKind::NeverClosed => "a quote is never closed".to_owned(),
            FaultKind::TooLong => self.limits.too_long(),
        }
    }
}

#[cfg(test)]
mod tests;
