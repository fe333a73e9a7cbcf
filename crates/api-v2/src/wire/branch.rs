use serde::Serialize;
use utoipa::ToSchema;

/// A branch.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Branch {
    pub(crate) name: String,
    pub(crate) head_commit_sha: String,
    /// Time of the head commit.
    pub(crate) last_updated_at: String,
    pub(crate) is_default: bool,
}

/// A tag.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Tag {
    pub(crate) name: String,
    pub(crate) commit_sha: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    pub(crate) tagged_at: String,
}

/// A release.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Release {
    pub(crate) tag: String,
    pub(crate) title: String,
    pub(crate) commit_sha: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
}
