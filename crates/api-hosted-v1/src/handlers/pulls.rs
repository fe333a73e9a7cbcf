use branchyard_deployments::access::{Observe, Propose};
use branchyard_domain::values::{LongText, Title};
use branchyard_http_common::{ApiResponse, Endpoint, HandlerError, RequestBody, RequestContext, section};
use branchyard_problem_details::{ErrorCode, Problem};

use super::{HandlerResult, unsupported, whole};
use crate::wire;
use branchyard_http_common::methods::{get, patch, post};
use branchyard_openapi::Success;
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Pulls",
        "/deployments/{owner}/{deployment}/pulls",
        vec![
            get("", "listPulls", "Pull requests of a database; there are none yet", list_pulls)
                .query(&["of_database", "pull_state", "query"])
                .responds(200, Success::List("Pull"), &[400, 404])
                .shows(|| json!({"data": [], "meta": {}})),
            post("", "createPull", "Open a pull request; not offered yet", create_pull)
                .json(&CREATE_PULL)
                .refuses(&[400, 403, 404, 409, 413, 415, 422]),
            get("/{pull_id}", "getPull", "A pull request; there are none yet", no_pull).refuses(&[404]),
            patch("/{pull_id}", "updatePull", "Change a pull request; there are none yet", no_pull)
                .refuses(&[400, 403, 404, 413, 415]),
            get("/{pull_id}/comments", "listPullComments", "Comments on a pull request; there are none yet", no_pull)
                .refuses(&[404]),
            post("/{pull_id}/comments", "createPullComment", "Comment on a pull request; there are none yet", no_pull)
                .refuses(&[400, 403, 404, 413, 415]),
            get("/{pull_id}/logs", "listPullLogs", "Log of a pull request; there are none yet", no_pull)
                .refuses(&[404]),
            post("/{pull_id}/merge", "mergePull", "Merge a pull request; there are none yet", no_pull)
                .refuses(&[400, 403, 404, 413, 415]),
        ],
    )
}

const STATES: &[(&str, ())] = &[("open", ()), ("closed", ()), ("merged", ())];

/// Handles `GET …/pulls`. The list is always empty, because deployments do not support pull requests yet.
pub(crate) async fn list_pulls(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Observe>().await?;
    let database = call.query(|query| {
        query.choice("state", STATES);
        query.required_text("database").map(str::to_owned)
    })?;
    if !access.deployment().databases.iter().any(|known| known.as_str().eq_ignore_ascii_case(&database)) {
        return Err(HandlerError::not_found(format!("no database {database} in the deployment")));
    }
    Ok(whole(&Vec::<wire::Pull>::new()))
}

const CREATE_PULL: RequestBody<()> = RequestBody::closed("CreatePullRequest", |fields| {
    fields.doc("A database of the deployment.").required_text("database");
    fields.required::<Title>("title");
    let from = fields.doc("A branch of the database.").required_text("from_branch");
    let to = fields.doc("Another branch of the database.").required_text("to_branch");
    fields.optional::<LongText>("description");
    if from.is_some() && from == to {
        fields.fault("to_branch", "must differ from from_branch");
    }
    Some(())
})
.example(|| json!({"database": "rivers", "title": "Fix gauges", "from_branch": "work", "to_branch": "main"}));

/// Handles `POST …/pulls`. So far, a request that is in order is answered that pull requests are not offered.
pub(crate) async fn create_pull(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Propose>().await?;
    let _key = call.key(access.who()).await?;
    call.json(&CREATE_PULL)?;
    Err(unsupported("pulls inside a deployment"))
}

/// Handles all routes below a pull request. Responds with 404, because deployments do not support pull requests yet.
pub(crate) async fn no_pull(call: RequestContext) -> Result<ApiResponse, HandlerError> {
    call.deployment::<Observe>().await?;
    let id = call.segment("pull_id");
    Err(Problem::new(ErrorCode::NotFound, format!("no pull request {id} in the deployment")).into())
}
