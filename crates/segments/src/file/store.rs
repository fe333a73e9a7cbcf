//! Moving ranges of a file to the object store.

use super::{Error, Ports};
use crate::key::{ObjectKey, Purpose};
use crate::ports::{FileError, Nonces, Objects};
use crate::record::{Epoch, Generation, Segment, Sha256};
use sha2::Digest;
use std::ops::Range;

pub(super) fn sha256(parts: &[&[u8]]) -> Sha256 {
    let mut hash = sha2::Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

/// Splits a range into ranges of one object each.
pub(super) fn pieces(range: Range<u64>, object_bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let mut start = range.start;
    std::iter::from_fn(move || {
        let end = range.end.min(start.saturating_add(object_bytes.max(1)));
        let piece = (start < end).then_some(start..end);
        start = end;
        piece
    })
}

/// What the names of new objects have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writing {
    pub(super) generation: Generation,
    pub(super) epoch: Epoch,
    /// The purpose of the object at the start of the range. Those behind it are [`Purpose::Part`].
    pub(super) first: Purpose,
}

impl<R, O: Objects, F, N: Nonces> Ports<R, O, F, N> {
    /// Stores a range of a file in fresh objects, and returns the segments that name them.
    pub(super) async fn store(
        &self,
        writing: Writing,
        range: Range<u64>,
        mut read: impl AsyncFnMut(Range<u64>) -> Result<Vec<u8>, FileError>,
    ) -> Result<Vec<Segment>, Error> {
        let mut segments = Vec::new();
        let data_key = if range.is_empty() { None } else { self.objects.data_key().await? };
        for Range { start, end } in pieces(range.clone(), self.limits.object_bytes) {
            let bytes = read(start..end).await?;
            if bytes.len() as u64 != end - start {
                return Err(FileError::Damaged(format!("bytes {start} to {end} are not there")).into());
            }
            let key = ObjectKey {
                database: self.database.clone(),
                generation: writing.generation,
                purpose: if start == range.start { writing.first } else { Purpose::Part },
                start,
                end,
                epoch: writing.epoch,
                nonce: self.nonces.next(),
                data_key,
            };
            let object = key.to_string();
            let sha256 = sha256(&[&bytes]);
            self.objects.put(&object, bytes).await?;
            segments.push(Segment { start, end, object, object_offset: 0, sha256 });
        }
        Ok(segments)
    }
}

#[cfg(test)]
mod tests {
    use super::pieces;
    use std::ops::Range;

    #[test]
    fn pieces_cover_the_range() {
        let of = |range, bytes| pieces(range, bytes).map(|Range { start, end }| (start, end)).collect::<Vec<_>>();
        assert_eq!(of(3..3, 4), []);
        assert_eq!(of(3..7, 4), [(3, 7)]);
        assert_eq!(of(3..12, 4), [(3, 7), (7, 11), (11, 12)]);
        assert_eq!(of(0..2, 0), [(0, 1), (1, 2)]);
    }
}
