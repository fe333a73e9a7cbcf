//! The format of a sealed object: frames that are sealed one by one.
//!
//! A frame is a random nonce, up to 64 KiB, encrypted, and the tag. What is bound to each frame, but not stored, is the key of the object,
//! with the length of the whole object in it, and the number of the frame. The number of frames follows from the length. So a frame opens
//! in its place only, and an object that was cut at the end of a frame lacks one.
//!
//! Nonces are random and 24 bytes long, so that no two frames under one data key have the same one, also if an object is stored again
//! under the same key.

use branchyard_domain::ports::Ids;
use branchyard_domain::values::ObjectKey;
use chacha20poly1305::aead::AeadInPlace as _;
use chacha20poly1305::{Tag, XChaCha20Poly1305, XNonce};

/// Most bytes in a frame.
pub(crate) const FRAME: u64 = 64 << 10;
const FRAME_BYTES: usize = 64 << 10;
const NONCE: usize = 24;
const TAG: usize = 16;
/// Bytes that a frame has more than what is in it.
const OVERHEAD: u64 = (NONCE + TAG) as u64;
/// Length of a full frame.
const SEALED_FRAME: u64 = FRAME + OVERHEAD;
/// Names the format to the cipher.
const FORMAT: &[u8] = b"branchyard object v1";

/// Returns the number of frames of an object. An empty object has one, so that it cannot be exchanged for another one either.
fn count(length: u64) -> u64 {
    length.div_ceil(FRAME).max(1)
}

/// Returns the length of the stored object.
pub(crate) fn sealed_length(length: u64) -> u64 {
    length.saturating_add(count(length).saturating_mul(OVERHEAD))
}

/// Returns the length of what is in a stored object.
pub(crate) fn plain_length(sealed: u64) -> u64 {
    sealed.saturating_sub(sealed.div_ceil(SEALED_FRAME).saturating_mul(OVERHEAD))
}

/// A frame that does not open: it is not what was stored in this place under this key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameError {
    /// The number of the frame.
    pub(crate) number: u64,
}

/// The frames of one object.
pub(crate) struct Frames<'a> {
    cipher: &'a XChaCha20Poly1305,
    key: &'a ObjectKey,
    length: u64,
}

impl<'a> Frames<'a> {
    /// Creates the frames of an object with this key, which names its length.
    pub(crate) fn new(cipher: &'a XChaCha20Poly1305, key: &'a ObjectKey, length: u64) -> Self {
        Self { cipher, key, length }
    }

    /// Returns the number of bytes in a frame.
    pub(crate) fn plain_bytes(&self, number: u64) -> usize {
        let rest = self.length.saturating_sub(number.saturating_mul(FRAME)).min(FRAME);
        usize::try_from(rest).unwrap_or(FRAME_BYTES)
    }

    /// Returns the length of a frame in the store.
    pub(crate) fn sealed_bytes(&self, number: u64) -> usize {
        NONCE + self.plain_bytes(number) + TAG
    }

    /// Returns the number of frames.
    pub(crate) fn count(&self) -> u64 {
        count(self.length)
    }

    /// Returns the offset of a frame in the store; that of the object's end for the one behind the last frame.
    pub(crate) fn offset(&self, number: u64) -> u64 {
        number.saturating_mul(SEALED_FRAME).min(sealed_length(self.length))
    }

    /// Appends a frame with these bytes.
    ///
    /// # Errors
    /// [`FrameError`] if the frame has another length.
    pub(crate) fn seal(
        &self,
        number: u64,
        bytes: &[u8],
        ids: &dyn Ids,
        sealed: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        if number >= self.count() || bytes.len() != self.plain_bytes(number) {
            return Err(FrameError { number });
        }
        let mut nonce = [0; NONCE];
        ids.fill(&mut nonce);
        sealed.extend_from_slice(&nonce);
        let start = sealed.len();
        sealed.extend_from_slice(bytes);
        let text = sealed.get_mut(start..).unwrap_or_default();
        let tag = self.cipher.encrypt_in_place_detached(XNonce::from_slice(&nonce), &self.bound_to(number), text);
        sealed.extend_from_slice(&tag.map_err(|_| FrameError { number })?);
        Ok(())
    }

    /// Appends the bytes of a frame.
    ///
    /// # Errors
    /// [`FrameError`] if it is not the frame with this number.
    pub(crate) fn open(&self, number: u64, sealed: &[u8], bytes: &mut Vec<u8>) -> Result<(), FrameError> {
        let failed = FrameError { number };
        if number >= self.count() || sealed.len() != self.sealed_bytes(number) {
            return Err(failed);
        }
        let (nonce, rest) = sealed.split_at_checked(NONCE).ok_or(failed)?;
        let (text, tag) = rest.split_at_checked(rest.len().saturating_sub(TAG)).ok_or(failed)?;
        let start = bytes.len();
        bytes.extend_from_slice(text);
        let text = bytes.get_mut(start..).unwrap_or_default();
        let opened = self.cipher.decrypt_in_place_detached(
            XNonce::from_slice(nonce),
            &self.bound_to(number),
            text,
            Tag::from_slice(tag),
        );
        opened.map_err(|_| failed)
    }

    fn bound_to(&self, number: u64) -> Vec<u8> {
        let is_last = u8::from(number + 1 == self.count());
        [FORMAT, &number.to_le_bytes(), &[is_last], self.key.as_str().as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_what_is_sealed_follows_from_that_of_the_object() {
        for (length, frames) in
            [(0, 1), (1, 1), (FRAME - 1, 1), (FRAME, 1), (FRAME + 1, 2), (3 * FRAME, 3), (3 * FRAME + 9, 4)]
        {
            assert_eq!(sealed_length(length), length + frames * OVERHEAD, "{length}");
            assert_eq!(plain_length(sealed_length(length)), length);
        }
        assert_eq!(plain_length(0), 0);
    }
}
