use serde::Serialize;

use super::DatabaseEcho;

/// A branch as a list item. It has exactly this key.
#[derive(Debug, Serialize)]
pub(crate) struct BranchItem {
    pub(crate) branch_name: String,
}

/// The branch of a request to create one.
#[derive(Debug, Serialize)]
pub(crate) struct NewBranchEcho {
    #[serde(flatten)]
    pub(crate) database: DatabaseEcho,
    pub(crate) new_branch_name: String,
    pub(crate) revision_type: String,
    pub(crate) revision_name: String,
}

/// The branch of a request to delete one.
#[derive(Debug, Serialize)]
pub(crate) struct BranchEcho {
    #[serde(flatten)]
    pub(crate) database: DatabaseEcho,
    pub(crate) branch_name: String,
}

/// A tag or a release as a list item.
#[derive(Debug, Serialize)]
pub(crate) struct TagItem {
    pub(crate) tag_name: String,
    pub(crate) tag_description: String,
    pub(crate) tagged_at: String,
}

/// The tag or release of a request to create one.
#[derive(Debug, Serialize)]
pub(crate) struct TagEcho {
    #[serde(flatten)]
    pub(crate) database: DatabaseEcho,
    pub(crate) tag_name: String,
    pub(crate) tag_description: String,
    pub(crate) revision_type: String,
    pub(crate) revision_name: String,
}

/// The fields that precede a list of tags or releases. The list is always complete, so the page token is empty.
#[derive(Debug, Serialize)]
pub(crate) struct TagsHead {
    #[serde(flatten)]
    pub(crate) database: DatabaseEcho,
    pub(crate) next_page_token: &'static str,
}
