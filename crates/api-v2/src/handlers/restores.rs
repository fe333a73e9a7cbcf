use branchyard_domain::access::Admin;
use branchyard_domain::entities::Operation;
use branchyard_domain::usecases::RestoreBranch;
use branchyard_domain::values::{RefName, Timestamp};
use branchyard_http_common::methods::post;
use branchyard_http_common::{Endpoint, Fields, RequestBody, RequestContext, section};
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
            post("/restore", "restoreBranch", "Restore a branch to a time", restore_branch)
                .json(&RESTORE)
                .responds(202, Success::One("OperationRef"), ("DBKP", &[422]))
                .describe(
                    "Runs as an operation, which moves `to_branch` to the commit that `branch` named at `at`, or creates \
                     it there. `branch` may have been deleted since. What `to_branch` named before can be restored, too, \
                     for as long as the server keeps its history (`store.history`, 7 days by default). 404 if `branch` did \
                     not exist then; 422 if the history does not reach back so far, or what it names was purged.",
                ),
        ],
    )
}

/// Handles `POST …/restore`.
pub(crate) async fn restore_branch(call: RequestContext) -> HandlerResult {
    let queued = queue_restore(&call).await;
    waiting::completed(call, queued).await
}

async fn queue_restore(call: &RequestContext) -> HandlerResult {
    let access = call.access::<Admin>().await?;
    let key = call.key(access.who()).await?;
    let wanted = call.json(&RESTORE)?;
    let urls = urls(&call.state);
    let queued = move |operation: &Operation| accepted(operation, &urls);
    call.effect(key, move |hub, once| hub.operations().restore(&access, wanted, once), queued).await
}

const RESTORE: RequestBody<RestoreBranch> = RequestBody::closed("RestoreRequest", restore)
    .example(|| json!({"branch": "main", "at": "2026-09-04T11:00:00Z", "to_branch": "before-the-mistake"}));

fn restore(fields: &Fields<'_>) -> Option<RestoreBranch> {
    let branch = fields.doc("The branch whose former head is wanted.").required_text("branch");
    let at = fields.doc("The time at which it had that head.").required::<Timestamp>("at");
    let to_branch = fields.doc("The branch that is moved to that head, or created.").required::<RefName>("to_branch");
    Some(RestoreBranch { branch: branch?, at: at?, to_branch: to_branch? })
}
