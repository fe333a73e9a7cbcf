//! Chunks that a client uploaded, in a file of their own. They are data, which nothing but the parser of this crate reads before
//! they are known to be chunks.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use branchyard_domain::values::ChunkHash;

/// Length of what comes before the content of a chunk: its hash, and its length.
const HEAD: usize = 24;

/// A file of uploaded chunks, with where each of them is.
pub(super) struct PushedFile<'a> {
    file: &'a File,
    places: HashMap<ChunkHash, Place>,
}

/// Where the content of a chunk begins in its file, and its length, in bytes.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: u64,
    length: u32,
}

impl<'a> PushedFile<'a> {
    /// Finds the chunks of a file. One at its end that is not complete does not count: it is still being written.
    pub(super) fn open(file: &'a File) -> io::Result<Self> {
        let (mut places, mut at, size) = (HashMap::new(), 0_u64, file.metadata()?.len());
        let mut head = [0; HEAD];
        while at.saturating_add(HEAD as u64) <= size {
            file.read_exact_at(&mut head, at)?;
            let ([hash @ .., _, _, _, _], [.., a, b, c, d]) = (head, head);
            let place = Place { start: at + HEAD as u64, length: u32::from_le_bytes([a, b, c, d]) };
            at = place.start.saturating_add(place.length.into());
            if at <= size {
                places.insert(ChunkHash::from_bytes(hash), place);
            }
        }
        Ok(Self { file, places })
    }

    /// Returns whether the file holds a chunk.
    pub(super) fn holds(&self, hash: &ChunkHash) -> bool {
        self.places.contains_key(hash)
    }

    /// Returns the content of a chunk, or `None` if the file does not hold it.
    pub(super) fn get(&self, hash: &ChunkHash) -> io::Result<Option<Vec<u8>>> {
        let Some(place) = self.places.get(hash) else { return Ok(None) };
        // The length was compared with that of the file.
        let mut content = vec![0; usize::try_from(place.length).unwrap_or_default()];
        self.file.read_exact_at(&mut content, place.start)?;
        Ok(Some(content))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn record(hash: u8, content: &[u8]) -> Vec<u8> {
        [&[hash; 20][..], &u32::try_from(content.len()).unwrap().to_le_bytes(), content].concat()
    }

    #[test]
    fn chunks_are_found_by_their_hash() {
        let file = file(&[record(1, b"one"), record(2, b""), record(3, b"three")].concat());
        let pushed = PushedFile::open(&file).unwrap();
        let get = |hash: u8| pushed.get(&ChunkHash::from_bytes([hash; 20])).unwrap();
        assert_eq!(
            [get(1), get(2), get(3), get(4)],
            [Some(b"one".to_vec()), Some(vec![]), Some(b"three".to_vec()), None]
        );
    }

    #[test]
    fn a_chunk_that_is_cut_off_is_absent() {
        let bytes = [record(1, b"one"), record(2, b"two")].concat();
        for length in 0..bytes.len() {
            let file = file(&bytes[..length]);
            let pushed = PushedFile::open(&file).unwrap();
            let holds = |hash: u8| pushed.holds(&ChunkHash::from_bytes([hash; 20]));
            assert_eq!([holds(1), holds(2)], [length >= 27, false], "{length}");
        }
        let mut long = record(1, b"one");
        long[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(!PushedFile::open(&file(&long)).unwrap().holds(&ChunkHash::from_bytes([1; 20])));
    }
}
