//! What a clone has received so far, in a file beside the new one.
//!
//! The file begins with a line that names the remote. Chunks follow as they are uploaded in pushes: hash, length, content. A record
//! that was cut off, or whose content has another hash, is removed with everything after it.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use branchyard_remote_protocol::{Hash, encode_record, hash_of};

/// Length of a hash and of the length that follows it.
const HEAD: usize = 24;
/// The longest chunk that is read back.
const LONGEST: u64 = 1 << 30;

/// The received chunks.
pub(super) struct PartFile {
    file: File,
    /// Place and length of each chunk.
    chunks: HashMap<Hash, (u64, u32)>,
    end: u64,
}

impl PartFile {
    /// Opens the file for a remote. What another remote sent is removed.
    pub(super) fn open(path: &Path, url: &str) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let head = format!("branchyard clone of {url}\n");
        let mut part = Self { file, chunks: HashMap::new(), end: head.len() as u64 };
        let mut found = vec![0; head.len()];
        let is_same = part.file.read_exact(&mut found).is_ok() && found == head.as_bytes();
        if is_same {
            part.read()?;
        } else {
            part.file.set_len(0)?;
            part.file.rewind()?;
            part.file.write_all(head.as_bytes())?;
        }
        part.file.set_len(part.end)?;
        Ok(part)
    }

    fn read(&mut self) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(1 << 20, self.file.try_clone()?);
        let mut head = [0; HEAD];
        while reader.read_exact(&mut head).is_ok() {
            let (hash, length) = head.split_at(HEAD - 4);
            let (Ok(hash), Ok(length)) = (Hash::try_from(hash), <[u8; 4]>::try_from(length)) else { break };
            let length = u32::from_le_bytes(length);
            let mut content = Vec::new();
            let read = (&mut reader).take(u64::from(length).min(LONGEST)).read_to_end(&mut content)?;
            if read != usize::try_from(length).unwrap_or(usize::MAX) || hash_of(&content) != hash {
                break;
            }
            self.chunks.insert(hash, (self.end + HEAD as u64, length));
            self.end += HEAD as u64 + u64::from(length);
        }
        Ok(())
    }

    /// Returns the number of chunks.
    pub(super) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Adds a chunk.
    pub(super) fn add(&mut self, hash: Hash, content: &[u8]) -> io::Result<()> {
        let mut record = Vec::with_capacity(HEAD + content.len());
        encode_record(&mut record, content);
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(&record)?;
        let length = u32::try_from(content.len()).map_err(io::Error::other)?;
        self.chunks.insert(hash, (self.end + HEAD as u64, length));
        self.end += record.len() as u64;
        Ok(())
    }

    /// Returns the length of a chunk.
    pub(super) fn length(&self, hash: &Hash) -> Option<u32> {
        self.chunks.get(hash).map(|(_, length)| *length)
    }

    /// Returns a chunk.
    pub(super) fn get(&mut self, hash: &Hash) -> io::Result<Option<Vec<u8>>> {
        let Some((at, length)) = self.chunks.get(hash).copied() else { return Ok(None) };
        self.file.seek(SeekFrom::Start(at))?;
        let mut content = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.file.read_exact(&mut content)?;
        Ok(Some(content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_whole_is_kept_and_the_rest_is_received_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trees.db.part");
        let contents: [&[u8]; 3] = [b"abc", b"", &[7; 5_000]];
        let mut part = PartFile::open(&path, "https://yard.example/ana/trees").unwrap();
        for content in contents {
            part.add(hash_of(content), content).unwrap();
        }
        drop(part);
        let whole = std::fs::read(&path).unwrap();
        let kept = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let mut part = PartFile::open(&path, "https://yard.example/ana/trees").unwrap();
            let found = contents.map(|content| part.get(&hash_of(content)).unwrap());
            for (content, found) in contents.iter().zip(found) {
                assert!(found.is_none_or(|found| found == *content));
            }
            part.len()
        };
        assert_eq!(kept(&whole), 3);
        assert_eq!(kept(&whole[..whole.len() - 1]), 2);
        let mut changed = whole.clone();
        let at = whole.windows(3).position(|part| part == b"abc").unwrap();
        changed[at] = b'x';
        assert_eq!(kept(&changed), 0);
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(PartFile::open(&path, "https://yard.example/ana/other").unwrap().len(), 0);
    }
}
