use serde::Serialize;
use serde_json::value::RawValue;

use super::ExecutionStatus;

/// The read of a request, for responses that repeat it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ReadEcho {
    pub(crate) repository_owner: String,
    pub(crate) repository_name: String,
    pub(crate) commit_ref: String,
    pub(crate) sql_query: String,
}

/// A column of a result. It has exactly these keys.
#[derive(Debug, Serialize)]
pub(crate) struct Column {
    #[serde(rename = "columnName")]
    pub(crate) name: String,
    #[serde(rename = "columnType")]
    pub(crate) kind: String,
}

/// The result of a read. The keys of each row are in column order.
#[derive(Debug, Serialize)]
pub(crate) struct ReadResult {
    pub(crate) query_execution_status: ExecutionStatus,
    pub(crate) query_execution_message: String,
    #[serde(flatten)]
    pub(crate) echo: ReadEcho,
    pub(crate) schema: Vec<Column>,
    pub(crate) rows: Box<RawValue>,
}
