use serde::Serialize;
use serde_json::value::RawValue;

use super::ExecutionStatus;

/// What was read, for answers that repeat it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ReadEcho {
    pub(crate) repository_owner: String,
    pub(crate) repository_name: String,
    pub(crate) commit_ref: String,
    pub(crate) sql_query: String,
}

/// A column of a result. Carries exactly these keys.
#[derive(Debug, Serialize)]
pub(crate) struct Column {
    #[serde(rename = "columnName")]
    pub(crate) name: String,
    #[serde(rename = "columnType")]
    pub(crate) kind: String,
}

/// The result of a read. Its rows were written key by key, in the order of the columns.
#[derive(Debug, Serialize)]
pub(crate) struct ReadResult {
    pub(crate) query_execution_status: ExecutionStatus,
    pub(crate) query_execution_message: String,
    #[serde(flatten)]
    pub(crate) echo: ReadEcho,
    pub(crate) schema: Vec<Column>,
    pub(crate) rows: Box<RawValue>,
}
