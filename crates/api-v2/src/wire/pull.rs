use serde::Serialize;
use utoipa::ToSchema;

use super::{DatabaseRef, PullBrings, PullState};

/// A reference to a branch of a database. It will always have exactly these keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BranchRef {
    pub(crate) database: DatabaseRef,
    pub(crate) branch_name: String,
}

/// A pull request in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PullSummary {
    pub(crate) pull_number: i64,
    pub(crate) title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    pub(crate) state: PullState,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    pub(crate) creator: String,
}

/// A pull request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Pull {
    #[serde(flatten)]
    pub(crate) summary: PullSummary,
    pub(crate) from_branch: BranchRef,
    pub(crate) to_branch: BranchRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) merged_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) merged_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) merge_commit_sha: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) closed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) brings: Option<Vec<PullBrings>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from_commit_sha: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to_commit_sha: Option<String>,
}

/// A withdrawn pull request. If its base is hidden from the caller, only the number and state are present.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WithdrawnPull {
    pub(crate) pull_number: i64,
    pub(crate) state: PullState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) updated_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) creator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from_branch: Option<BranchRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to_branch: Option<BranchRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) closed_at: Option<String>,
}

/// A comment on a pull request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PullComment {
    pub(crate) comment_id: String,
    pub(crate) author: String,
    pub(crate) body: String,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
}
