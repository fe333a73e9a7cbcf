//! Chunks as the engine returns them.

use crate::values::CommitHash;

/// A chunk; see [`ChunkHash`](crate::values::ChunkHash).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The content.
    pub bytes: Vec<u8>,
    /// The parents, if the chunk is a commit.
    pub parents: Option<Vec<CommitHash>>,
}
