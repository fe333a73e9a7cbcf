use serde::Serialize;
use utoipa::ToSchema;

/// A pull request within a deployment. Not offered yet: lists of them are empty.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Pull {
    pub(crate) id: String,
    pub(crate) database: String,
    pub(crate) title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    pub(crate) from_branch: String,
    pub(crate) to_branch: String,
    pub(crate) state: &'static str,
    pub(crate) creator: String,
    pub(crate) created_at: String,
    pub(crate) comment_count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after_merge_commit: Option<String>,
}
