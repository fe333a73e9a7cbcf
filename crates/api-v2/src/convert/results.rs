use branchyard_http_common::CollectedJsonRows;
use serde_json::value::RawValue;

use super::{REPLACED, query_column};
use crate::wire;

/// Converts the rows of a successful read.
pub(crate) fn finished(collected: CollectedJsonRows) -> wire::QueryResult {
    let CollectedJsonRows { columns, rows, cut, replaced } = collected;
    wire::QueryResult {
        columns: columns.into_iter().map(|(column, kind)| query_column(column, kind)).collect(),
        rows,
        status: if cut.is_some() { wire::QueryStatus::RowLimit } else { wire::QueryStatus::Success },
        message: cut,
        warnings: if replaced { vec![REPLACED.to_owned()] } else { Vec::new() },
    }
}

/// Returns the result of a failed read.
pub(crate) fn failed(status: wire::QueryStatus, message: String) -> wire::QueryResult {
    wire::QueryResult {
        columns: Vec::new(),
        rows: RawValue::from_string("[]".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned()),
        status,
        message: Some(message),
        warnings: Vec::new(),
    }
}
