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
    /// The person who made the tag, if a client that pushed it said so.
    pub tagger: Option<Tagger>,
    /// When the tag was created. For a pushed tag, when the client says that it was made.
    pub tagged_at: Timestamp,
}

/// The person who made a tag, as the client says that pushed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tagger {
    /// Name of the person.
    pub name: String,
    /// Email address of the person.
    pub email: String,
}
