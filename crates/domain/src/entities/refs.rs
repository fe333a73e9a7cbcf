//! Branches and tags: names for commits.

use crate::values::{CommitHash, RefName, Timestamp};

/// A name that moves as commits are added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Its name.
    pub name: RefName,
    /// The newest commit on it.
    pub head: CommitHash,
    /// Time of that commit.
    pub updated_at: Timestamp,
}

/// A name that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// Its name.
    pub name: RefName,
    /// What it names.
    pub commit: CommitHash,
    /// Present on annotated tags.
    pub message: Option<String>,
    /// When it was created.
    pub tagged_at: Timestamp,
}
