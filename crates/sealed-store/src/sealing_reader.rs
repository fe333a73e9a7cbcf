//! Sealing while an object is stored.

use std::io::{self, Read};

use branchyard_domain::ports::{Ids, ObjectDigest};
use sha2::{Digest as _, Sha256};

use crate::frames::Frames;

/// Reads the frames of an object whose bytes another reader has.
pub(crate) struct SealingReader<'a> {
    frames: Frames<'a>,
    from: &'a mut dyn Read,
    ids: &'a dyn Ids,
    /// The next frame.
    number: u64,
    hash: Sha256,
    length: u64,
    plain: Vec<u8>,
    sealed: Vec<u8>,
    /// How much of the frame was read.
    at: usize,
}

impl<'a> SealingReader<'a> {
    pub(crate) fn new(frames: Frames<'a>, from: &'a mut dyn Read, ids: &'a dyn Ids) -> Self {
        let (plain, sealed) = (Vec::new(), Vec::new());
        Self { frames, from, ids, number: 0, hash: Sha256::new(), length: 0, plain, sealed, at: 0 }
    }

    /// Returns the digest of what was sealed.
    pub(crate) fn digest(self) -> ObjectDigest {
        ObjectDigest { length: self.length, sha256: self.hash.finalize().into() }
    }

    fn next_frame(&mut self) -> io::Result<()> {
        let expected = self.frames.plain_bytes(self.number);
        self.plain.resize(expected, 0);
        self.from.read_exact(&mut self.plain)?;
        self.hash.update(&self.plain);
        self.length += u64::try_from(expected).unwrap_or(u64::MAX);
        self.sealed.clear();
        self.at = 0;
        let sealed = self.frames.seal(self.number, &self.plain, self.ids, &mut self.sealed);
        sealed.map_err(|error| io::Error::other(format!("frame {} cannot be sealed", error.number)))?;
        self.number += 1;
        Ok(())
    }
}

impl Read for SealingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.sealed.len() && self.number < self.frames.count() && !buffer.is_empty() {
            self.next_frame()?;
        }
        let read = self.sealed.get(self.at..).unwrap_or_default().read(buffer)?;
        self.at += read;
        Ok(read)
    }
}
