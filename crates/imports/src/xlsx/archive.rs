//! The parts of a workbook's zip archive, with a bound on their decompressed size.

use std::cell::Cell;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::rc::Rc;

use flate2::bufread::DeflateDecoder;
use zip::{CompressionMethod, ZipArchive};

use super::xml::Xml;
use crate::error::FileError;
use crate::failure::{FirstFailure, WatchedReader};
use crate::format::Input;

const BUFFER_BYTES: usize = 64 * 1024;
/// Maximum decompressed size in bytes of a part other than a sheet or the shared strings.
const SMALL_PART_BYTES: u64 = 64 << 20;
/// Size in bytes of the end record of a zip archive, without its comment, which is at most 64 KiB long.
const END_BYTES: u64 = 22;
const END_MARK: &[u8] = b"PK\x05\x06";
const END64_MARK: &[u8] = b"PK\x06\x07";

/// A workbook whose directory has been read.
pub(super) struct WorkbookArchive<'a> {
    input: &'a Input<'a>,
    zip: ZipArchive<WatchedReader>,
    failure: FirstFailure,
    expanded: Rc<Cell<u64>>,
}

impl<'a> WorkbookArchive<'a> {
    pub(super) fn open(input: &'a Input<'a>) -> Result<Self, FileError> {
        let failure = FirstFailure::default();
        let mut file = WatchedReader::new((input.open)().map_err(FileError::Io)?, &failure);
        check_end(&mut file).map_err(|error| failure.or_file(format!("not a workbook: {error}")))?;
        let zip = ZipArchive::new(file).map_err(|error| failure.or_file(format!("not a workbook: {error}")))?;
        Ok(Self { input, zip, failure, expanded: Rc::default() })
    }

    /// Opens a part that is read as a stream.
    pub(super) fn xml(&mut self, name: &str) -> Result<Xml, FileError> {
        let missing = || FileError::whole(format!("not a workbook: it has no part {name}"));
        let part = self.part(name, u64::MAX)?.ok_or_else(missing)?;
        Ok(Xml::new(part, self.input.limits, self.failure.clone()))
    }

    /// Opens a part that is kept in memory. Returns `None` if the workbook has no part of this name.
    pub(super) fn small_xml(&mut self, name: &str) -> Result<Option<Xml>, FileError> {
        let part = self.part(name, SMALL_PART_BYTES)?;
        Ok(part.map(|part| Xml::new(part, self.input.limits, self.failure.clone())))
    }

    fn part(&mut self, name: &str, limit: u64) -> Result<Option<Box<dyn Read>>, FileError> {
        let name = name.trim_start_matches('/');
        let same = |other: &[u8]| other.eq_ignore_ascii_case(name.as_bytes());
        let Some(at) = self.zip.file_names_raw().position(same) else { return Ok(None) };
        let wrong =
            |error: &dyn std::fmt::Display| self.failure.or_file(format!("part {name} cannot be read: {error}"));
        let (start, size, method) = {
            let file = self.zip.by_index_raw(at).map_err(|error| wrong(&error))?;
            if file.encrypted() {
                return Err(FileError::whole("the workbook is protected by a password"));
            }
            let start = file.data_start().ok_or_else(|| wrong(&"it has no place in the file"))?;
            (start, file.compressed_size(), file.compression())
        };
        let mut file = WatchedReader::new((self.input.open)().map_err(FileError::Io)?, &self.failure);
        file.seek(SeekFrom::Start(start)).map_err(|error| wrong(&error))?;
        let compressed = BufReader::with_capacity(BUFFER_BYTES, file.take(size));
        let expanding: Box<dyn Read> = match method {
            CompressionMethod::Stored => Box::new(compressed),
            CompressionMethod::Deflated => Box::new(DeflateDecoder::new(compressed)),
            other => return Err(FileError::whole(format!("part {name} is compressed by {other}, not by deflate"))),
        };
        let (expanded, all) = (Rc::clone(&self.expanded), self.input.limits.expanded_bytes);
        Ok(Some(Box::new(CountedReader { expanding, expanded, all, own: 0, limit, failure: self.failure.clone() })))
    }
}

/// Checks the end record of the archive. The directory is kept in memory, so its length must be known before it is read.
/// Only archives larger than an upload may be, or with more than 65,534 parts, need the 64-bit format, which is rejected.
fn check_end(file: &mut WatchedReader) -> io::Result<()> {
    let length = file.seek(SeekFrom::End(0))?;
    let tail = length.min(END_BYTES + 20 + u64::from(u16::MAX));
    file.seek(SeekFrom::Start(length - tail))?;
    let mut bytes = Vec::new();
    file.take(tail).read_to_end(&mut bytes)?;
    file.seek(SeekFrom::Start(0))?;
    let is = |mark: &[u8]| bytes.windows(mark.len()).any(|window| window == mark);
    if !is(END_MARK) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a zip archive"));
    }
    if is(END64_MARK) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its zip archive has the 64-bit form"));
    }
    Ok(())
}

/// Counts the decompressed bytes of one part and of the whole workbook.
struct CountedReader {
    expanding: Box<dyn Read>,
    expanded: Rc<Cell<u64>>,
    all: u64,
    own: u64,
    limit: u64,
    failure: FirstFailure,
}

impl Read for CountedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.expanding.read(buffer)?;
        let more = u64::try_from(read).unwrap_or(u64::MAX);
        self.own += more;
        self.expanded.set(self.expanded.get().saturating_add(more));
        let beyond = if self.expanded.get() > self.all { Some(self.all) } else { None };
        if let Some(limit) = beyond.or_else(|| (self.own > self.limit).then_some(self.limit)) {
            let what = if beyond.is_some() { "the file" } else { "a part of the workbook" };
            return Err(self.failure.keep(FileError::whole(format!("{what} expands to more than {limit} bytes"))));
        }
        Ok(read)
    }
}
