use branchyard_http_common::{ApiResponse, CollectedJsonRows, to_json};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{REPLACED, query_column};
use crate::wire;

/// The part of a [`wire::QueryResult`] before its rows.
#[derive(Serialize)]
struct BeforeRows {
    columns: Vec<wire::QueryColumn>,
}

/// The part of a [`wire::QueryResult`] after its rows.
#[derive(Serialize)]
struct AfterRows {
    status: wire::QueryStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    warnings: Vec<String>,
}

/// Returns the response of a successful read. Its body is put together from texts, because a [`RawValue`] of the rows would read all
/// of them again.
pub(crate) fn finished(collected: CollectedJsonRows) -> ApiResponse {
    let CollectedJsonRows { columns, rows, cut, replaced } = collected;
    let columns = columns.into_iter().map(|(column, kind)| query_column(column, kind)).collect();
    let before = to_json(&BeforeRows { columns });
    let after = to_json(&AfterRows {
        status: if cut.is_some() { wire::QueryStatus::RowLimit } else { wire::QueryStatus::Success },
        message: cut,
        warnings: if replaced { vec![REPLACED.to_owned()] } else { Vec::new() },
    });
    let (before, after) = (before.trim_end_matches('}'), after.trim_start_matches('{'));
    ApiResponse::with_body(200, ["{\"data\":", before, ",\"rows\":", &rows, ",", after, "}"].concat())
}

/// Returns the response of a failed read.
pub(crate) fn failed(status: wire::QueryStatus, message: String) -> ApiResponse {
    ApiResponse::data(
        200,
        &wire::QueryResult {
            columns: Vec::new(),
            rows: RawValue::from_string("[]".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned()),
            status,
            message: Some(message),
            warnings: Vec::new(),
        },
    )
}

#[cfg(test)]
mod tests {
    use branchyard_domain::ports::Column;
    use branchyard_http_common::{ApiResponse, CollectedJsonRows};
    use serde_json::value::RawValue;

    use super::finished;
    use crate::convert::{REPLACED, query_column};
    use crate::wire::{QueryResult, QueryStatus};

    #[test]
    fn the_parts_of_a_result_are_its_wire_type() {
        let column =
            Column { name: "a}\"{".into(), declared_type: None, is_primary_key: true, source_table: "t".into() };
        for (columns, cut, replaced) in
            [(Vec::new(), None, false), (vec![(column, Some("TEXT"))], Some("only the first 1 rows".to_owned()), true)]
        {
            let rows = r#"[["}",null]]"#.to_owned();
            let expected = QueryResult {
                columns: columns.iter().map(|(column, kind)| query_column(Column::clone(column), *kind)).collect(),
                rows: RawValue::from_string(rows.clone()).unwrap(),
                status: if cut.is_some() { QueryStatus::RowLimit } else { QueryStatus::Success },
                message: cut.clone(),
                warnings: if replaced { vec![REPLACED.to_owned()] } else { Vec::new() },
            };
            let collected = CollectedJsonRows { columns, rows, cut, replaced };
            assert_eq!(finished(collected), ApiResponse::data(200, &expected));
        }
    }
}
