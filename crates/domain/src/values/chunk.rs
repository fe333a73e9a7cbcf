//! Hashes of chunks.

use std::fmt;

use super::CommitHash;

/// The identity of a chunk: the first 20 bytes of the BLAKE3 hash of its content. A chunk is a piece of a database: a commit, the
/// list of its tables, or a part of a table or an index. The hash of a commit is also that of its chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
// Engines pass arrays of hashes to C code.
#[repr(transparent)]
pub struct ChunkHash([u8; 20]);

impl ChunkHash {
    /// Stands for the absence of a chunk, for example where a table is empty.
    pub const NONE: Self = Self([0; 20]);

    /// Returns the hash of a chunk with this content.
    pub fn of(content: &[u8]) -> Self {
        let hash = blake3::hash(content);
        // A hash has 32 bytes.
        Self(hash.as_bytes().first_chunk().copied().unwrap_or_default())
    }

    /// Returns the hash with these bytes.
    pub const fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the hash.
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// Returns the hash as that of a commit.
    pub fn as_commit(&self) -> CommitHash {
        CommitHash::of_bytes(&self.0)
    }
}

impl From<&CommitHash> for ChunkHash {
    fn from(commit: &CommitHash) -> Self {
        Self(commit.to_bytes())
    }
}

impl fmt::Display for ChunkHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChunkHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_chunk_is_that_of_its_content() {
        assert_eq!(ChunkHash::of(b"abc").to_string(), "6437b3ac38465133ffb63b75273a8db548c55846");
        assert_eq!(ChunkHash::of(b"").to_string(), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9");
    }

    #[test]
    fn a_commit_and_its_chunk_have_the_same_hash() {
        let commit = CommitHash::parse("00ff10a9b8c7d6e5f40312233445566778899AaB").unwrap();
        let chunk = ChunkHash::from(&commit);
        assert_eq!(chunk.as_bytes()[..3], [0, 0xff, 0x10]);
        assert_eq!(chunk.to_string(), commit.as_str());
        assert_eq!(chunk.as_commit(), commit);
    }
}
