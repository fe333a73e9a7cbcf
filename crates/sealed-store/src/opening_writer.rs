//! Opening while an object is read.

use std::io::{self, Write};

use branchyard_domain::ports::ObjectDigest;
use sha2::{Digest as _, Sha256};

use crate::frames::{FrameError, Frames};

/// Takes the frames of an object, and passes on what is in them.
pub(crate) struct OpeningWriter<'a> {
    frames: Frames<'a>,
    to: &'a mut dyn Write,
    /// The next frame.
    number: u64,
    hash: Sha256,
    length: u64,
    /// What there is of the next frame.
    sealed: Vec<u8>,
    plain: Vec<u8>,
    /// The frame that did not open.
    failed: Option<FrameError>,
}

impl<'a> OpeningWriter<'a> {
    pub(crate) fn new(frames: Frames<'a>, to: &'a mut dyn Write) -> Self {
        let (sealed, plain) = (Vec::new(), Vec::new());
        Self { frames, to, number: 0, hash: Sha256::new(), length: 0, sealed, plain, failed: None }
    }

    /// Returns the digest of what was passed on.
    ///
    /// # Errors
    /// [`FrameError`] if a frame is missing, or did not open.
    pub(crate) fn finish(self) -> Result<ObjectDigest, FrameError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        match self.number == self.frames.count() && self.sealed.is_empty() {
            true => Ok(ObjectDigest { length: self.length, sha256: self.hash.finalize().into() }),
            false => Err(FrameError { number: self.number }),
        }
    }

    /// Returns the frame that did not open, if that is why a write failed.
    pub(crate) fn failed(&self) -> Option<FrameError> {
        self.failed
    }

    fn open(&mut self) -> io::Result<()> {
        self.plain.clear();
        if let Err(error) = self.frames.open(self.number, &self.sealed, &mut self.plain) {
            self.failed = Some(error);
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.hash.update(&self.plain);
        self.length += u64::try_from(self.plain.len()).unwrap_or(u64::MAX);
        self.number += 1;
        self.sealed.clear();
        self.to.write_all(&self.plain)
    }
}

impl Write for OpeningWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let missing = self.frames.sealed_bytes(self.number).saturating_sub(self.sealed.len());
        let taken = bytes.get(..missing.min(bytes.len())).unwrap_or_default();
        // Bytes behind the last frame are none of the object's.
        if self.number >= self.frames.count() {
            self.failed = Some(FrameError { number: self.number });
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.sealed.extend_from_slice(taken);
        if taken.len() == missing {
            self.open()?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
