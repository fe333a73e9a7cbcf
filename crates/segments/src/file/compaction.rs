//! Replacing many small segments by few large ones.

use super::store::Writing;
use super::{DatabaseFile, Error, Limits, Ports};
use crate::key::Purpose;
use crate::ports::{FileError, LocalFile, Nonces, Objects, Records};
use crate::record::{Epoch, Generation, Record, Segment, Swap};
use crate::status::State;
use sha2::Digest;
use std::ops::Range;
use std::slice;
use std::sync::Arc;

/// A compaction that is due. It runs beside reads and writes, without the turn.
#[derive(Debug)]
pub struct Compaction<R, O, F, N> {
    ports: Arc<Ports<R, O, F, N>>,
    generation: Generation,
    epoch: Epoch,
    replaced: Vec<Segment>,
}

impl<R: Records, O: Objects, F: LocalFile, N: Nonces> DatabaseFile<R, O, F, N> {
    /// Returns the compaction of this row, if one is due and this file has the bytes. The row must have all segments
    /// ([`Records::load`] without known bytes).
    ///
    /// Any node may compact. The lease holder should, as its file has all bytes.
    #[must_use]
    pub fn compaction(&self, row: &Record) -> Option<Compaction<R, O, F, N>> {
        let known = match self.status.state() {
            State::Prefix(known) | State::Leading(known, _) => known,
            State::Absent | State::Unknown | State::Dirty(_) => return None,
        };
        let replaced = &row.segments[due(&row.segments, &self.ports.limits)?];
        let is_here = known.generation == row.generation && replaced.last()?.end <= known.length;
        is_here.then(|| Compaction {
            ports: self.ports.clone(),
            generation: row.generation,
            epoch: row.epoch,
            replaced: replaced.to_vec(),
        })
    }
}

impl<R: Records, O: Objects, F: LocalFile, N: Nonces> Compaction<R, O, F, N> {
    /// Stores the bytes in fresh objects, and replaces the segments in the row. Returns `false` if the row has changed meanwhile.
    /// The old objects may be collected once no row names them.
    ///
    /// # Errors
    ///
    /// The row may or may not have the new segments. Either way it names the same bytes, and the caller may try again with a fresh
    /// row. [`FileError::Damaged`] is about the local file, which the caller [distrusts](DatabaseFile::distrust).
    pub async fn run(self) -> Result<bool, Error> {
        let Self { ports, generation, epoch, replaced } = self;
        let (Some(first), Some(last)) = (replaced.first(), replaced.last()) else {
            return Ok(false);
        };
        let range = first.start..last.end;
        let writing = Writing { generation, epoch, first: Purpose::Part };
        // Without the turn, the file may be replaced at any time. So what is stored is compared itself, and not read once more.
        let mut comparison = Comparison::new(&replaced);
        let read = async |range| {
            let bytes = ports.file.read(range).await?;
            comparison.add(&bytes)?;
            Ok(bytes)
        };
        let by = ports.store(writing, range, read).await?;
        Ok(ports.records.swap(&Swap { epoch, generation, replaced, by }).await?)
    }
}

/// Compares bytes with the hashes of the segments that they make up, whatever pieces they come in.
struct Comparison<'a> {
    segments: slice::Iter<'a, Segment>,
    hash: sha2::Sha256,
    /// The number of bytes of the next segment that were added.
    added: usize,
}

impl<'a> Comparison<'a> {
    fn new(segments: &'a [Segment]) -> Self {
        Self { segments: segments.iter(), hash: sha2::Sha256::new(), added: 0 }
    }

    /// Adds the next bytes. Returns an error if they complete a segment that has another hash.
    fn add(&mut self, mut bytes: &[u8]) -> Result<(), FileError> {
        while let Some(segment) = self.segments.as_slice().first() {
            let missing = usize::try_from(segment.end - segment.start).unwrap_or(usize::MAX) - self.added;
            let Some((last, more)) = bytes.split_at_checked(missing) else {
                break;
            };
            self.hash.update(last);
            if self.hash.finalize_reset() != segment.sha256.into() {
                let what = format!("bytes {} to {} are not those of their segment", segment.start, segment.end);
                return Err(FileError::Damaged(what));
            }
            self.segments.next();
            self.added = 0;
            bytes = more;
        }
        self.hash.update(bytes);
        self.added += bytes.len();
        Ok(())
    }
}

/// Returns the small segments at the end of the row, if they are to be compacted.
fn due(segments: &[Segment], limits: &Limits) -> Option<Range<usize>> {
    let size = |segment: &Segment| segment.end - segment.start;
    let is_large = |segment: &Segment| size(segment) >= limits.object_bytes / 2;
    let first = segments.iter().rposition(is_large).map_or(0, |large| large + 1);
    let small = &segments[first..];
    let bytes: u64 = small.iter().map(size).sum();
    let is_due = small.len() > limits.small_segments || small.len() > 1 && bytes > limits.small_bytes;
    is_due.then_some(first..segments.len())
}

#[cfg(test)]
mod tests {
    use super::super::store::sha256;
    use super::*;

    fn segments(sizes: &[u64]) -> Vec<Segment> {
        let mut start = 0;
        let mut segment = |size: &u64| {
            let end = start + size;
            let segment = Segment { start, end, object: String::new(), object_offset: 0, sha256: [0; 32] };
            start = end;
            segment
        };
        sizes.iter().map(&mut segment).collect()
    }

    #[test]
    fn bytes_are_compared_whatever_pieces_they_come_in() {
        let mut two = segments(&[3, 4]);
        two[0].sha256 = sha256(&[b"abc"]);
        two[1].sha256 = sha256(&[b"defg"]);
        for pieces in [&["abcdefg"][..], &["ab", "cdefg"], &["abc", "d", "efg"], &["a", "bcd", "ef", "g"]] {
            let mut comparison = Comparison::new(&two);
            for piece in pieces {
                comparison.add(piece.as_bytes()).unwrap();
            }
            assert!(comparison.segments.as_slice().is_empty(), "{pieces:?}");
        }
        let mut comparison = Comparison::new(&two);
        comparison.add(b"abcde").unwrap();
        assert!(comparison.add(b"fx").is_err());
    }

    #[test]
    fn small_segments_behind_the_last_large_one_are_due() {
        let limits = Limits { object_bytes: 100, gets: 1, small_segments: 3, small_bytes: 60 };
        let due = |sizes: &[u64]| due(&segments(sizes), &limits);
        assert_eq!(due(&[]), None);
        assert_eq!(due(&[100, 1, 1, 1]), None);
        assert_eq!(due(&[1, 100, 1, 1, 1, 1]), Some(2..6));
        assert_eq!(due(&[1, 1, 1, 1]), Some(0..4));
        assert_eq!(due(&[100, 40, 30]), Some(1..3), "too many bytes");
        assert_eq!(due(&[100, 40]), None, "nothing is gained");
    }
}
