use branchyard_domain::access::Write;
use branchyard_domain::entities::Operation;
use branchyard_domain::usecases::NewEdit;
use branchyard_http_common::methods::post;
use branchyard_http_common::{Endpoint, RequestBody, RequestContext, edit_fields, section};
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

const EDIT: RequestBody<NewEdit> = RequestBody::closed("EditRowsRequest", edit_fields).example(|| {
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
