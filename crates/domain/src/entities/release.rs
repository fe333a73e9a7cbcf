//! Releases: a tag with a title and notes.

use crate::values::{CommitHash, RefName, ReleaseId, Timestamp};

/// A release of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Its id.
    pub id: ReleaseId,
    /// The tag it stands on; one release per tag.
    pub tag: RefName,
    /// Its title.
    pub title: String,
    /// The commit of the tag.
    pub commit: CommitHash,
    /// Notes, in Markdown.
    pub description: Option<String>,
    /// When it was published.
    pub created_at: Timestamp,
    /// When it was last edited.
    pub updated_at: Timestamp,
}
