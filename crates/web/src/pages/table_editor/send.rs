//! `/{owner}/{database}/tables/{table}/edits`: checks edits of the grid, and commits them. Both take the body of the API's request.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use branchyard_domain::access::{DatabaseAccess, Write};
use branchyard_domain::entities::{
    Cell, CellConflict, FailureKind, OperationFailure, OperationStatus, RowChange, RowProblem,
};
use branchyard_domain::ports::{PreviewedTable, WritePreview};
use branchyard_domain::usecases::{EditCheck, EditCheckEnd, NewEdit};
use branchyard_http_common::{ApiError, HandlerError, edit_fields, preview_refusal, read_open};
use branchyard_problem_details::{ErrorCode, FieldError, Problem};
use serde_json::{Value, json};

use super::cells;
use crate::changes::word;
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::{PageError, sentence};
use crate::format;
use crate::forms::JsonPost;
use crate::new_branch;
use crate::page_context::PageResult;
use crate::settled;

/// How often the handler waits about a second for the operation.
const WAITS: usize = 8;

/// Opens the database, and reads the edit.
async fn open(
    posted: &JsonPost,
) -> Result<(DatabaseAccess<Write>, DatabaseFrame, Result<NewEdit, Problem>), PageError> {
    let (access, frame) = database::open::<Write>(posted, DatabaseTab::Tables).await?;
    let read = read_open(&posted.body, edit_fields);
    Ok((access, frame, read.map(|edit| NewEdit { table: posted.segment("table"), ..edit })))
}

/// `POST /{owner}/{database}/tables/{table}/edits/check`: says what the edits would change, or what is wrong with them.
pub(crate) async fn check(posted: JsonPost) -> PageResult {
    posted.has_no_effect();
    let (access, _, wanted) = open(&posted).await?;
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(problem) => return refused(problem.into()),
    };
    let checked = posted
        .write(move |hub| -> Result<EditCheck, ApiError> { Ok(hub.operations().check_edit(&access, wanted)?) })
        .await;
    match checked {
        Ok(checked) => Ok(HttpResponse::Ok().json(outcome(&checked))),
        Err(failure) => refused(failure),
    }
}

fn outcome(checked: &EditCheck) -> Value {
    let head = checked.head.to_string();
    match &checked.end {
        EditCheckEnd::Changes(preview) => json!({"status": "ok", "head": head, "tables": changes(preview)}),
        EditCheckEnd::Problems(rows) => json!({"status": "problems", "head": head, "problems": problems(rows)}),
        EditCheckEnd::Conflicts(cells) => {
            let conflicts: Vec<Value> = cells.iter().map(conflict).collect();
            json!({"status": "conflicts", "head": head, "conflicts": conflicts})
        }
        EditCheckEnd::Incomparable(detail) => {
            json!({"status": "incomparable", "head": head, "error": sentence(detail)})
        }
        EditCheckEnd::Refused(refusal) => {
            json!({"status": "unchecked", "head": head, "error": sentence(preview_refusal(*refusal))})
        }
    }
}

/// Returns problems with the position of the row in the request, from 0. `null` stands for all rows together.
fn problems(rows: &[RowProblem]) -> Vec<Value> {
    let problem = |row: &RowProblem| {
        let column = row.column.as_deref().or_else(|| failed_column(&row.detail));
        let detail = row.detail.trim_start_matches("query error: ");
        json!({"row": row.line.checked_sub(1), "column": column, "detail": sentence(detail)})
    };
    rows.iter().map(problem).collect()
}

/// Returns the column that the engine names in a failure such as `NOT NULL constraint failed: rivers.name`.
fn failed_column(detail: &str) -> Option<&str> {
    let (what, named) = detail.rsplit_once(" constraint failed: ")?;
    let is_of_column = what.ends_with("NOT NULL") || what.ends_with("UNIQUE");
    let (_, column) = named.split_once('.')?;
    (is_of_column && !column.contains(',')).then_some(column)
}

fn conflict(cell: &CellConflict) -> Value {
    json!({
        "row": cell.line.saturating_sub(1),
        "column": cell.column,
        "base": cells::or_absent(cell.base.as_ref(), cells::of_cell),
        "theirs": cells::or_absent(cell.current.as_ref(), cells::of_cell),
        "mine": cells::or_absent(cell.wanted.as_ref(), cells::of_edited),
    })
}

fn changes(preview: &WritePreview) -> Vec<Value> {
    let table = |table: &PreviewedTable| {
        let columns = table.rows.rows.iter().find_map(|row| row.to.as_ref().or(row.from.as_ref()));
        let columns: Vec<&str> = columns.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        let (added, removed, changed) = table.change.rows.unwrap_or_default();
        json!({
            "table": table.change.table,
            "added": added,
            "removed": removed,
            "changed": changed,
            "columns": columns,
            "rows": table.rows.rows.iter().map(row_change).collect::<Vec<_>>(),
            "more": table.rows.more,
        })
    };
    preview.tables.iter().map(table).collect()
}

fn row_change(row: &RowChange) -> Value {
    let side = |cells: Option<&Vec<(String, Cell)>>| {
        cells.map(|cells| cells.iter().map(|(_, cell)| cells::of_cell(cell)).collect::<Vec<_>>())
    };
    json!({"kind": word(row.change), "from": side(row.from.as_ref()), "to": side(row.to.as_ref())})
}

/// `POST /{owner}/{database}/tables/{table}/edits`: commits the edits. Waits for the operation for some seconds.
pub(crate) async fn commit(posted: JsonPost) -> PageResult {
    let (access, frame, wanted) = open(&posted).await?;
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(problem) => return refused(problem.into()),
    };
    if let Some(name) = wanted.to_branch.as_ref().filter(|name| name.as_str() != wanted.branch)
        && let Some(fault) = new_branch::fault(&posted, &access, name).await?
    {
        return Ok(HttpResponse::UnprocessableEntity().json(json!({"status": "failed", "error": fault})));
    }
    let accepted =
        posted.write(move |hub| -> Result<_, ApiError> { Ok(hub.operations().edit(&access, wanted, None)?) }).await;
    let operation = match accepted {
        Ok(operation) => operation,
        Err(failure) => return refused(failure),
    };
    let id = operation.id;
    for _ in 0..WAITS {
        match settled::read_soon(&posted, id).await?.status {
            OperationStatus::Queued | OperationStatus::Running => {}
            OperationStatus::Succeeded(outcome) => {
                let commit = outcome.commit.as_ref();
                let body = json!({
                    "status": "committed",
                    "commit": commit.map(ToString::to_string),
                    "short": commit.map(format::short),
                });
                return Ok(HttpResponse::Ok().json(body));
            }
            OperationStatus::Failed(failure) => return Ok(HttpResponse::UnprocessableEntity().json(failed(&failure))),
        }
    }
    let operation = format!("{}/operations/{id}", frame.path);
    Ok(HttpResponse::Accepted().json(json!({"status": "running", "operation": operation})))
}

fn failed(failure: &OperationFailure) -> Value {
    json!({
        "status": "failed",
        "is_conflict": failure.kind == FailureKind::MergeConflict,
        "error": sentence(failure.detail.trim_start_matches("query error: ")),
        "problems": problems(&failure.rows),
    })
}

/// Sends a refusal as JSON. Faults of the server are left to the page of errors.
fn refused(failure: HandlerError) -> PageResult {
    let problem = match failure {
        HandlerError::Problem(problem) if problem.code() != ErrorCode::Internal => problem,
        other => return Err(other.into()),
    };
    let status = StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::UNPROCESSABLE_ENTITY);
    let problems: Vec<Value> = problem.errors().iter().filter_map(row_fault).collect();
    Ok(HttpResponse::build(status).json(json!({"error": sentence(problem.detail()), "problems": problems})))
}

/// Returns the problem of a row, from an error at `/rows/{row}/{set or key}/{column}`.
fn row_fault(error: &FieldError) -> Option<Value> {
    let mut parts = error.pointer()?.strip_prefix("/rows/")?.splitn(3, '/');
    let row: usize = parts.next()?.parse().ok()?;
    let column = parts.nth(1).map(|column| column.replace("~1", "/").replace("~0", "~"));
    Some(json!({"row": row, "column": column, "detail": sentence(error.detail())}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_in_failures_of_the_engine() {
        assert_eq!(failed_column("query error: NOT NULL constraint failed: rivers.name"), Some("name"));
        assert_eq!(failed_column("query error: UNIQUE constraint failed: rivers.a.b"), Some("a.b"));
        assert_eq!(failed_column("query error: UNIQUE constraint failed: t.a, t.b"), None);
        assert_eq!(failed_column("query error: CHECK constraint failed: x.y > 0"), None);
        assert_eq!(failed_column("query error: FOREIGN KEY constraint failed"), None);
    }

    #[test]
    fn faults_of_the_request_name_rows_and_columns() {
        let fault = row_fault(&FieldError::at_pointer("/rows/3/set/a~1b", "occurs twice"));
        assert_eq!(fault, Some(json!({"row": 3, "column": "a/b", "detail": "Occurs twice."})));
        let fault = row_fault(&FieldError::at_pointer("/rows/0", "must be an object"));
        assert_eq!(fault, Some(json!({"row": 0, "column": null, "detail": "Must be an object."})));
        assert_eq!(row_fault(&FieldError::at_pointer("/message", "too long")), None);
    }
}
