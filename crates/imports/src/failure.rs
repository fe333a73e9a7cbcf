//! Errors carried past third-party parsers, which would preserve only parts of them.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::FileError;
use crate::format::ReadSeek;

/// The first error among all clones of the value.
#[derive(Debug, Clone, Default)]
pub(crate) struct FirstFailure(Arc<Mutex<Option<FileError>>>);

impl FirstFailure {
    /// Keeps the first error and returns the placeholder error for the parser.
    pub(crate) fn keep(&self, error: FileError) -> io::Error {
        self.0.lock().get_or_insert(error);
        io::Error::other("reading stopped")
    }

    /// Returns the kept error. If there is none, the parser itself rejected the file, and `wrong` becomes the error.
    pub(crate) fn or_file(&self, wrong: impl fmt::Display) -> FileError {
        self.or(FileError::whole(wrong.to_string()))
    }

    /// Returns the kept error, or `wrong` if there is none.
    pub(crate) fn or(&self, wrong: FileError) -> FileError {
        self.0.lock().take().unwrap_or(wrong)
    }
}

/// A reader whose errors are kept.
pub(crate) struct WatchedReader {
    input: Box<dyn ReadSeek>,
    failure: FirstFailure,
}

impl WatchedReader {
    pub(crate) fn new(input: Box<dyn ReadSeek>, failure: &FirstFailure) -> Self {
        Self { input, failure: failure.clone() }
    }

    fn watch<T>(&self, result: io::Result<T>) -> io::Result<T> {
        match result {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(self.failure.keep(FileError::Io(error))),
            other => other,
        }
    }
}

impl Read for WatchedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer);
        self.watch(read)
    }
}

impl Seek for WatchedReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self.input.seek(to) {
            // Seeking to a position before the start is a defect of the file, not of the reader.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(error),
            sought => self.watch(sought),
        }
    }
}
