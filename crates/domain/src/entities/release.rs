//! Releases: tags with a title and release notes.

use crate::values::{CommitHash, RefName, ReleaseId, Timestamp};

/// A release of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Id of the release.
    pub id: ReleaseId,
    /// The tag of the release. A tag has at most one release.
    pub tag: RefName,
    /// Title.
    pub title: String,
    /// The commit of the tag.
    pub commit: CommitHash,
    /// Release notes, in Markdown.
    pub description: Option<String>,
    /// When the release was published.
    pub created_at: Timestamp,
    /// When the release was last edited.
    pub updated_at: Timestamp,
}
