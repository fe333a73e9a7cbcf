use branchyard_domain::entities::{Branch, Release, Tag};
use branchyard_http_common::rfc3339;

use crate::wire;

/// Converts a branch.
pub(crate) fn branch(branch: &Branch, is_default: bool) -> wire::Branch {
    let Branch { name, head, updated_at } = branch;
    wire::Branch {
        name: name.to_string(),
        head_commit_sha: head.to_string(),
        last_updated_at: rfc3339(*updated_at),
        is_default,
    }
}

impl From<&Tag> for wire::Tag {
    fn from(tag: &Tag) -> Self {
        let Tag { name, commit, message, tagger: _, tagged_at } = tag;
        Self {
            name: name.to_string(),
            commit_sha: commit.to_string(),
            message: message.clone(),
            tagged_at: rfc3339(*tagged_at),
        }
    }
}

impl From<&Release> for wire::Release {
    fn from(release: &Release) -> Self {
        let Release { id: _, tag, title, commit, description, created_at, updated_at } = release;
        Self {
            tag: tag.to_string(),
            title: title.clone(),
            commit_sha: commit.to_string(),
            description: description.clone(),
            created_at: rfc3339(*created_at),
            updated_at: rfc3339(*updated_at),
        }
    }
}
