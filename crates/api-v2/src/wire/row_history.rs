use serde::Serialize;
use utoipa::ToSchema;

use super::diff::columns_as_object;
use super::{CommitAuthor, Row, RowChange};

/// A commit that changed a row.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RowRevision {
    pub(crate) commit_sha: String,
    pub(crate) author: CommitAuthor,
    pub(crate) committed_at: String,
    pub(crate) message: String,
    /// The pull request that brought the commit, if a merge commit did, or the commit is the head of what was merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pull_number: Option<i64>,
    /// Only in the history of a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) primary_key: Option<Row>,
    pub(crate) change: RowChange,
    /// The row in the first parent of the commit; `null` if the commit added it.
    #[schema(required)]
    pub(crate) from: Option<Row>,
    /// The row in the commit; `null` if the commit removed it.
    #[schema(required)]
    pub(crate) to: Option<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) truncated_columns: Vec<String>,
}

/// How far a page of a history looked.
#[derive(Debug, Serialize)]
pub(crate) struct Searched {
    pub(crate) commits: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to_commit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_changed_by: Option<String>,
}

/// The `meta` of a page of a history.
#[derive(Debug, Serialize)]
pub(crate) struct HistoryMeta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_page_token: Option<String>,
    pub(crate) searched: Searched,
}

/// The commits that the cells of a row are from.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RowBlame {
    pub(crate) columns: BlamedColumns,
    /// Whether the commits of all columns were found.
    pub(crate) complete: bool,
    /// Number of commits that were looked at.
    pub(crate) commits: u64,
    /// The commit at which the search ended, because it changed the columns of the primary key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_changed_by: Option<String>,
}

/// Columns in table order, as an object.
#[derive(Debug, Serialize, ToSchema)]
#[schema(value_type = std::collections::BTreeMap<String, CellBlame>)]
pub(crate) struct BlamedColumns(#[serde(serialize_with = "columns_as_object")] pub(crate) Vec<(String, CellBlame)>);

/// The commit that a cell is from.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CellBlame {
    pub(crate) commit_sha: String,
    pub(crate) author: CommitAuthor,
    pub(crate) committed_at: String,
    pub(crate) message: String,
    /// The value before. Absent if the commit added the row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<Option<String>>,
    /// Whether `from` is cut at 64 KiB.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pull_number: Option<i64>,
}
