use serde::Serialize;
use utoipa::ToSchema;

use super::{DatabaseRef, OperationStatus, OperationType};

/// A reference to accepted work.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OperationRef {
    pub(crate) id: String,
    pub(crate) href: String,
}

/// An error in an imported file, with its place.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RowError {
    pub(crate) line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) column: Option<String>,
    pub(crate) detail: String,
}

/// The reason why an operation failed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OperationError {
    /// The HTTP status that a synchronous request would have been answered with.
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) title: &'static str,
    pub(crate) detail: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) errors: Vec<RowError>,
}

/// The result of an operation.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct OperationResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pull_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) commit_sha: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) database: Option<DatabaseRef>,
    /// Number of bytes by which a purge made the file of the database smaller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) freed_bytes: Option<u64>,
    /// Forks that keep commits which the purge removed and that the caller can see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kept_by_forks: Option<Vec<DatabaseRef>>,
    /// Whether there are more such forks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kept_by_other_forks: Option<bool>,
}

/// Accepted work.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Operation {
    pub(crate) id: String,
    #[serde(rename = "type")]
    pub(crate) kind: OperationType,
    pub(crate) status: OperationStatus,
    pub(crate) created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<String>,
    pub(crate) created_by: String,
    pub(crate) cancelable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<OperationError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<OperationResult>,
}
