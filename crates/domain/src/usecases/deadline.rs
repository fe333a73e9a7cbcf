//! Deadlines for reading files.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use super::Inner;
use crate::ports::{Clock, ReadSeek};
use crate::values::Timestamp;

/// A deadline for the work on a file.
#[derive(Clone)]
pub(super) struct FileDeadline {
    clock: Arc<dyn Clock>,
    at: Timestamp,
}

impl FileDeadline {
    /// Creates a deadline `millis` milliseconds from now.
    pub(super) fn start(inner: &Inner, millis: u64) -> Self {
        let micros = i64::try_from(millis.saturating_mul(1_000)).unwrap_or(i64::MAX);
        let at = Timestamp::from_micros(inner.now().as_micros().saturating_add(micros));
        Self { clock: Arc::clone(&inner.ports.clock), at }
    }

    /// Returns the time left, or zero if the deadline has passed.
    pub(super) fn left(&self) -> Duration {
        let micros = self.at.as_micros().saturating_sub(self.clock.now().as_micros());
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}

/// A file whose reads fail with [`io::ErrorKind::TimedOut`] once the deadline has passed.
pub(super) struct TimedFile {
    file: Box<dyn ReadSeek>,
    deadline: FileDeadline,
}

impl TimedFile {
    pub(super) fn new(file: Box<dyn ReadSeek>, deadline: FileDeadline) -> Self {
        Self { file, deadline }
    }
}

impl Read for TimedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.deadline.left().is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}

impl Seek for TimedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}
