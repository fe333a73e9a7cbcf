//! Why reading stopped, kept apart from the parsers of others in between, which would only pass on part of it.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::ImportError;
use crate::format::ReadSeek;

/// The first failure of everything that shares it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FirstFailure(Arc<Mutex<Option<ImportError>>>);

impl FirstFailure {
    /// Keeps the first failure, and gives what the parser in between is told.
    pub(crate) fn keep(&self, error: ImportError) -> io::Error {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        io::Error::other("reading stopped")
    }

    /// The failure that was kept; if none was, the parser itself found the file to be wrong.
    pub(crate) fn or_file(&self, wrong: impl fmt::Display) -> ImportError {
        self.or(ImportError::whole(wrong.to_string()))
    }

    /// As [`FirstFailure::or_file`].
    pub(crate) fn or(&self, wrong: ImportError) -> ImportError {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(wrong)
    }
}

/// A reader whose failures are kept.
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
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(self.failure.keep(ImportError::Io(error))),
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
            // A file that points before its own start is wrong, not unreadable.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(error),
            sought => self.watch(sought),
        }
    }
}
