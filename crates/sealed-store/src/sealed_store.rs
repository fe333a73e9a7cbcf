//! A store around another one, which seals and opens objects.

use std::io::{Read, Write};
use std::ops::Range;
use std::sync::Arc;

use branchyard_domain::ports::{DatabaseStore, ObjectDigest, ObjectInfo, StoreError};
use branchyard_domain::values::{DataKeyId, DataKeyScope, ObjectKey, ObjectSeal};

use crate::data_key_ring::{Cipher, DataKeyRing};
use crate::frames::{FRAME, FrameError, Frames, plain_length, sealed_length};
use crate::opening_writer::OpeningWriter;
use crate::sealing_reader::SealingReader;

/// A store whose objects are sealed if their keys say so ([`ObjectKey::seal`]). Lengths, ranges and hashes are those of what is in an
/// object. Other objects are passed on as they are.
#[derive(Debug)]
pub struct SealedStore<S: ?Sized> {
    keys: Arc<DataKeyRing>,
    inner: Arc<S>,
}

impl<S: DatabaseStore + ?Sized> SealedStore<S> {
    /// Creates the store around `inner`, which is also the store of `keys`.
    pub fn new(inner: Arc<S>, keys: Arc<DataKeyRing>) -> Self {
        Self { keys, inner }
    }

    /// Seals the bytes of an object that is stored in one piece.
    fn sealed(&self, key: &ObjectKey, seal: ObjectSeal, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
        let cipher = self.keys.cipher(seal.key)?;
        let frames = of_length(&cipher, key, seal, u64::try_from(bytes.len()).unwrap_or(u64::MAX))?;
        let mut sealed = Vec::with_capacity(usize::try_from(sealed_length(seal.length)).unwrap_or_default());
        let mut rest = bytes;
        for number in 0..frames.count() {
            let (frame, more) = rest.split_at_checked(frames.plain_bytes(number)).unwrap_or((rest, &[]));
            frames.seal(number, frame, self.keys.ids(), &mut sealed).map_err(|error| fault(key, error.number))?;
            rest = more;
        }
        Ok(sealed)
    }
}

/// Returns the frames of an object with these many bytes.
fn of_length<'a>(
    cipher: &'a Cipher,
    key: &'a ObjectKey,
    seal: ObjectSeal,
    length: u64,
) -> Result<Frames<'a>, StoreError> {
    match length == seal.length {
        true => Ok(Frames::new(cipher, key, length)),
        false => Err(fault(key, length)),
    }
}

/// The caller named the object by another length than it has.
fn fault(key: &ObjectKey, at: u64) -> StoreError {
    StoreError::Rejected { advice: format!("report this fault: object {key} cannot be sealed at {at}"), source: None }
}

fn damaged(key: &ObjectKey, FrameError { number }: FrameError) -> StoreError {
    StoreError::damaged(key, format!("frame {number} is not what was sealed there"))
}

/// Returns what is known about an object with the length of what is in it.
fn opened(info: ObjectInfo) -> ObjectInfo {
    match info.key.seal() {
        Some(_) => ObjectInfo { length: plain_length(info.length), ..info },
        None => info,
    }
}

impl<S: DatabaseStore + ?Sized> DatabaseStore for SealedStore<S> {
    fn put(&self, key: &ObjectKey, bytes: &[u8]) -> Result<ObjectDigest, StoreError> {
        let Some(seal) = key.seal() else { return self.inner.put(key, bytes) };
        self.inner.put(key, &self.sealed(key, seal, bytes)?)?;
        Ok(ObjectDigest::of(bytes))
    }

    fn put_from(&self, key: &ObjectKey, length: u64, from: &mut dyn Read) -> Result<ObjectDigest, StoreError> {
        let Some(seal) = key.seal() else { return self.inner.put_from(key, length, from) };
        let cipher = self.keys.cipher(seal.key)?;
        let mut reader = SealingReader::new(of_length(&cipher, key, seal, length)?, from, self.keys.ids());
        self.inner.put_from(key, sealed_length(length), &mut reader)?;
        Ok(reader.digest())
    }

    fn replace(&self, key: &ObjectKey, bytes: &[u8]) -> Result<(), StoreError> {
        let Some(seal) = key.seal() else { return self.inner.replace(key, bytes) };
        self.inner.replace(key, &self.sealed(key, seal, bytes)?)
    }

    fn info(&self, key: &ObjectKey) -> Result<ObjectInfo, StoreError> {
        self.inner.info(key).map(opened)
    }

    fn read(&self, key: &ObjectKey, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let Some(seal) = key.seal().filter(|_| !range.is_empty()) else { return self.inner.read(key, range) };
        if range.end > seal.length {
            let reason = format!("it has {} bytes, and {range:?} were wanted", seal.length);
            return Err(StoreError::damaged(key, reason));
        }
        let cipher = self.keys.cipher(seal.key)?;
        let frames = Frames::new(&cipher, key, seal.length);
        let numbers = range.start / FRAME..range.end.div_ceil(FRAME);
        let sealed = self.inner.read(key, frames.offset(numbers.start)..frames.offset(numbers.end))?;
        let start = usize::try_from(range.start % FRAME).unwrap_or_default();
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let (mut bytes, mut rest) = (Vec::with_capacity(sealed.len()), sealed.as_slice());
        for number in numbers {
            let (frame, more) = rest.split_at_checked(frames.sealed_bytes(number)).unwrap_or((rest, &[]));
            frames.open(number, frame, &mut bytes).map_err(|error| damaged(key, error))?;
            rest = more;
        }
        bytes.truncate(start.saturating_add(length));
        bytes.drain(..start.min(bytes.len()));
        Ok(bytes)
    }

    fn read_into(&self, key: &ObjectKey, to: &mut dyn Write) -> Result<ObjectDigest, StoreError> {
        let Some(seal) = key.seal() else { return self.inner.read_into(key, to) };
        let cipher = self.keys.cipher(seal.key)?;
        let mut writer = OpeningWriter::new(Frames::new(&cipher, key, seal.length), to);
        match (self.inner.read_into(key, &mut writer), writer.failed()) {
            (Err(StoreError::Io(_)), Some(failed)) => Err(damaged(key, failed)),
            (read, _) => {
                read?;
                writer.finish().map_err(|error| damaged(key, error))
            }
        }
    }

    fn list(
        &self,
        below: Option<&ObjectKey>,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<ObjectInfo>, StoreError> {
        let found = self.inner.list(below, after, limit)?;
        Ok(found.into_iter().map(opened).collect())
    }

    fn remove(&self, keys: &[ObjectKey]) -> Result<(), StoreError> {
        self.inner.remove(keys)
    }

    fn data_key(&self, scope: DataKeyScope) -> Result<Option<DataKeyId>, StoreError> {
        self.keys.of_scope(scope)
    }
}
