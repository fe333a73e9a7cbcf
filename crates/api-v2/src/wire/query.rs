use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::QueryStatus;

/// A column of a result.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QueryColumn {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) is_primary_key: bool,
    /// `""` for expressions.
    pub(crate) source_table: String,
}

/// The result of a SQL read.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QueryResult {
    pub(crate) columns: Vec<QueryColumn>,
    #[schema(value_type = Vec<Vec<Option<String>>>)]
    pub(crate) rows: Box<RawValue>,
    pub(crate) status: QueryStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    pub(crate) warnings: Vec<String>,
}
