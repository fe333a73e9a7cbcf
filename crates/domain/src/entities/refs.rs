//! Branches and tags.

use crate::values::{CommitHash, RefName, Timestamp};

/// A branch: a ref that moves as commits are added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Name of the branch.
    pub name: RefName,
    /// The newest commit of the branch.
    pub head: CommitHash,
    /// Time of that commit.
    pub updated_at: Timestamp,
}

/// A tag: a ref that does not move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// Name of the tag.
    pub name: RefName,
    /// The tagged commit.
    pub commit: CommitHash,
    /// Message of an annotated tag.
    pub message: Option<String>,
    /// When the tag was created.
    pub tagged_at: Timestamp,
}
