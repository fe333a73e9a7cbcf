//! Chunks as the engine returns and takes them.

use crate::values::{CommitHash, Timestamp};

/// A chunk; see [`ChunkHash`](crate::values::ChunkHash).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The content.
    pub bytes: Vec<u8>,
    /// The parents, if the chunk is a commit.
    pub parents: Option<Vec<CommitHash>>,
}

/// A chunk that a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldChunk {
    /// A commit with these parents.
    Commit(Vec<CommitHash>),
    /// A part of the content of commits.
    Content,
}

/// What a walk from a commit through pushed chunks found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushedHistory {
    /// Everything below the commit was pushed or is in the file.
    Complete {
        /// The commits of the file at which the walk ended, none of which was pushed. The file holds all that is below them, whether
        /// the database shows them or not.
        known: Vec<CommitHash>,
        /// When each of the commits was made, in their order. `None` for one that was not pushed.
        dates: Vec<Option<Timestamp>>,
    },
    /// A chunk was neither pushed nor is it in the file.
    Lacking,
    /// A pushed chunk is not what its place demands. Holds the reason, worded for the pusher.
    Malformed(String),
}
