use serde::Serialize;
use serde_json::value::RawValue;

use super::DatabaseEcho;

/// The state of a pull request.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) enum PullState {
    Open,
    Closed,
    Merged,
}

/// A pull request as a list item.
#[derive(Debug, Serialize)]
pub(crate) struct PullItem {
    pub(crate) pull_id: String,
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) state: PullState,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    pub(crate) creator: String,
    pub(crate) creator_name: String,
}

/// A page of pull requests.
#[derive(Debug, Serialize)]
pub(crate) struct Pulls {
    #[serde(flatten)]
    pub(crate) database: DatabaseEcho,
    pub(crate) next_page_token: String,
    pub(crate) pulls: Box<RawValue>,
}

/// The pull request of a request to create one.
#[derive(Debug, Serialize)]
pub(crate) struct PullEnds {
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) from_owner_name: String,
    pub(crate) from_repository_name: String,
    pub(crate) from_branch_name: String,
    pub(crate) to_owner_name: String,
    pub(crate) to_repository_name: String,
    pub(crate) to_branch_name: String,
}

/// A pull request that was created.
#[derive(Debug, Serialize)]
pub(crate) struct PullCreated {
    #[serde(flatten)]
    pub(crate) ends: PullEnds,
    pub(crate) pull_id: String,
    #[serde(rename = "_id")]
    pub(crate) id: String,
}

/// The number and the database of a pull request in a path.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PullEcho {
    #[serde(flatten)]
    pub(crate) database: DatabaseEcho,
    pub(crate) pull_id: String,
}

/// A pull request after an edit.
#[derive(Debug, Serialize)]
pub(crate) struct PullPart {
    #[serde(flatten)]
    pub(crate) echo: PullEcho,
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) state: PullState,
}

/// A pull request. Six of its fields are sent under two names, because clients read either.
#[derive(Debug, Serialize)]
pub(crate) struct Pull {
    #[serde(flatten)]
    pub(crate) part: PullPart,
    pub(crate) from_branch_owner: String,
    pub(crate) from_branch_owner_name: String,
    pub(crate) from_branch_database: String,
    pub(crate) from_branch_repo_name: String,
    pub(crate) from_branch: String,
    pub(crate) from_branch_name: String,
    pub(crate) to_branch_owner: String,
    pub(crate) to_branch_owner_name: String,
    pub(crate) to_branch_database: String,
    pub(crate) to_branch_repo_name: String,
    pub(crate) to_branch: String,
    pub(crate) to_branch_name: String,
    pub(crate) created_at: String,
    pub(crate) author: String,
}

/// The comment of a request to create one. Unlike other pull request endpoints, it names the database by `repository_` fields.
#[derive(Debug, Serialize)]
pub(crate) struct CommentEcho {
    pub(crate) repository_owner: String,
    pub(crate) repository_name: String,
    pub(crate) pull_id: String,
    pub(crate) comment: String,
}

/// A merge whose operation was started. It has no state, because clients would take the pull request for merged.
#[derive(Debug, Serialize)]
pub(crate) struct MergeStarted {
    #[serde(flatten)]
    pub(crate) echo: PullEcho,
    pub(crate) operation_name: String,
    pub(crate) user_operation_name: String,
}
