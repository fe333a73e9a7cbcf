use branchyard_domain::access::Write;
use branchyard_domain::entities::{Operation, RowEdit};
use branchyard_domain::usecases::{NewEdit, Operations};
use branchyard_domain::values::{CommitPrefix, LongText, RefName};
use branchyard_http_common::methods::post;
use branchyard_http_common::{Endpoint, Fields, RequestBody, RequestContext, Words, section};
use branchyard_openapi::Success;
use serde_json::json;

use super::{HandlerResult, accepted, urls};
use crate::waiting;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Database",
        "/databases/{owner}/{database}",
        vec![
            post("/tables/{table}/edits", "editTableRows", "Edit rows of a table", edit_table_rows)
                .json(&EDIT)
                .responds(202, Success::One("OperationRef"), ("DBKP", &[422]))
                .describe(
                    "Runs as an operation, all or nothing: the rows become one commit on `to_branch`, which is created from \
                     the head of `branch` if missing. `base` is the commit whose rows the client showed. Cells that others \
                     changed since fail the operation with `MERGE_CONFLICT`, with the three values of each in `errors`; cells \
                     that are not set keep what others made of them. `line` counts the rows of the request from 1.",
                ),
        ],
    )
}

/// Handles `POST …/tables/{table}/edits`.
pub(crate) async fn edit_table_rows(call: RequestContext) -> HandlerResult {
    let queued = queue_edit(&call).await;
    waiting::completed(call, queued).await
}

async fn queue_edit(call: &RequestContext) -> HandlerResult {
    let access = call.access::<Write>().await?;
    let key = call.key(access.who()).await?;
    let wanted = NewEdit { table: call.segment("table"), ..call.json(&EDIT)? };
    let urls = urls(&call.state);
    let queued = move |operation: &Operation| accepted(operation, &urls);
    call.effect(key, move |hub, once| hub.operations().edit(&access, wanted, once), queued).await
}

const EDIT: RequestBody<NewEdit> = RequestBody::closed("EditRowsRequest", edit).example(|| {
    json!({
        "branch": "main",
        "base": "a41f0c77e2b95d3086c4d1e9f7021b6538ad90ce",
        "rows": [
            {"op": "update", "key": {"id": 4}, "set": {"level": 2}},
            {"op": "insert", "set": {"id": 9, "name": "Lech"}},
            {"op": "delete", "key": {"id": 3}},
        ],
    })
});

#[derive(Clone, Copy, PartialEq, Eq)]
enum EditWord {
    Insert,
    Update,
    Delete,
}

const OPS: Words<EditWord> =
    Words::inline(&[("insert", EditWord::Insert), ("update", EditWord::Update), ("delete", EditWord::Delete)]);

fn edit(fields: &Fields<'_>) -> Option<NewEdit> {
    let branch = fields.doc("The branch that was edited.").required_text("branch");
    let base = fields.doc("The commit whose rows were shown.").required::<CommitPrefix>("base");
    let to_branch = fields
        .doc("The branch to commit to, created from the head of `branch` if missing. Default: `branch`.")
        .optional::<RefName>("to_branch");
    let message = fields.optional::<LongText>("message");
    let rows = fields.doc("At least 1, at most 10,000.").required_objects("rows", row);
    let most = Operations::MOST_EDITED_ROWS;
    match rows.as_ref().map(Vec::len) {
        Some(0) => fields.fault("rows", "must not be empty"),
        Some(count) if count > most => {
            fields.fault("rows", format!("has {count} rows; at most {most} are edited at once"))
        }
        Some(_) | None => {}
    }
    Some(NewEdit { branch: branch?, to_branch, base: base?, table: String::new(), rows: rows?, message })
}

fn row(fields: &Fields<'_>) -> Option<RowEdit> {
    let op = fields.required_choice("op", &OPS);
    let key = fields.cells("key");
    let set = fields.cells("set");
    let (op, key, set) = (op?, key?, set?);
    match op {
        EditWord::Insert if fields.has("key") => {
            fields.fault("key", "belongs to update and delete");
            None
        }
        EditWord::Insert => Some(RowEdit::Insert { set }),
        EditWord::Update => Some(RowEdit::Update { key, set }),
        EditWord::Delete if fields.has("set") => {
            fields.fault("set", "belongs to insert and update");
            None
        }
        EditWord::Delete => Some(RowEdit::Delete { key }),
    }
}
