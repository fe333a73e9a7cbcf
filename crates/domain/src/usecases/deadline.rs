//! When the time for a file is over, and files that cannot be read any more then.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use super::Inner;
use crate::ports::{Clock, ReadSeek};
use crate::values::Timestamp;

/// When the time for a file is over.
#[derive(Clone)]
pub(super) struct FileDeadline {
    clock: Arc<dyn Clock>,
    at: Timestamp,
}

impl FileDeadline {
    /// So many milliseconds from now.
    pub(super) fn start(inner: &Inner, millis: u64) -> Self {
        let micros = i64::try_from(millis.saturating_mul(1_000)).unwrap_or(i64::MAX);
        let at = Timestamp::from_micros(inner.now().as_micros().saturating_add(micros));
        Self { clock: Arc::clone(&inner.ports.clock), at }
    }

    /// What is left of it.
    pub(super) fn left(&self) -> Duration {
        let micros = self.at.as_micros().saturating_sub(self.clock.now().as_micros());
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}

/// A file that cannot be read any more when the time is over.
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
