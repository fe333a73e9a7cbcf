//! Chunks: the pieces of content of which a database file consists, each named by the hash of its bytes.
//!
//! A commit names its parents and a catalog, a catalog names the roots of the tables and indexes, and a node of a tree
//! names the nodes below it. A file is *closed*: with a chunk it holds all chunks below it. That is why a copy between
//! two files may end at chunks that the target holds, and why it brings children before the chunks that name them.

mod copy;
mod file;
mod layout;

use std::fmt;

use branchyard_domain::values::CommitHash;

pub(crate) use copy::copy_history;
pub(crate) use file::ChunkFile;

/// The hash of a chunk: the first 20 bytes of the BLAKE3 hash of its content.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub(crate) struct ChunkHash([u8; 20]);

impl ChunkHash {
    /// Stands for the absence of a chunk, for example where a table is empty.
    const NONE: Self = Self([0; 20]);
}

impl From<&CommitHash> for ChunkHash {
    fn from(commit: &CommitHash) -> Self {
        let mut hash = Self::NONE;
        // A commit hash has exactly 40 hexadecimal digits.
        for (byte, digits) in hash.0.iter_mut().zip(commit.as_str().as_bytes().chunks_exact(2)) {
            *byte = digits.iter().fold(0, |byte, digit| byte << 4 | hex_value(*digit));
        }
        hash
    }
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'0'),
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
    fn the_hash_of_a_commit_is_written_as_it_was_read() {
        let text = "00ff10a9b8c7d6e5f40312233445566778899aab";
        assert_eq!(ChunkHash::from(&CommitHash::parse(text).unwrap()).to_string(), text);
    }
}
