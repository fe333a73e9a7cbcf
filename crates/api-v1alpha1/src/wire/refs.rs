use serde::Serialize;

use super::DatabaseEcho;

/// A branch in a list. Carries exactly this key.
#[derive(Debug, Serialize)]
pub(crate) struct BranchItem {
    pub(crate) branch_name: String,
}

/// A branch that was, or was to be, created.
#[derive(Debug, Serialize)]
pub(crate) struct NewBranchEcho {
    #[serde(flatten)]
    pub(crate) database: DatabaseEcho,
    pub(crate) new_branch_name: String,
    pub(crate) revision_type: String,
    pub(crate) revision_name: String,
}

/// A branch that was, or was to be, deleted.
#[derive(Debug, Serialize)]
pub(crate) struct BranchEcho {
    #[serde(flatten)]
    pub(crate) database: DatabaseEcho,
    pub(crate) branch_name: String,
}

/// A tag or a release in a list.
#[derive(Debug, Serialize)]
pub(crate) struct TagItem {
    pub(crate) tag_name: String,
    pub(crate) tag_description: String,
    pub(crate) tagged_at: String,
}

/// A tag or a release that was, or was to be, created.
#[derive(Debug, Serialize)]
pub(crate) struct TagEcho {
    #[serde(flatten)]
    pub(crate) database: DatabaseEcho,
    pub(crate) tag_name: String,
    pub(crate) tag_description: String,
    pub(crate) revision_type: String,
    pub(crate) revision_name: String,
}

/// What stands before a list of tags or releases, which is always whole.
#[derive(Debug, Serialize)]
pub(crate) struct TagsHead {
    #[serde(flatten)]
    pub(crate) database: DatabaseEcho,
    pub(crate) next_page_token: &'static str,
}
