use branchyard_deployments::access::Observe;
use branchyard_http_common::{ApiResponse, Endpoint, HandlerError, RequestContext, tagged};
use branchyard_problem_details::{ErrorCode, Problem};

use super::{HandlerResult, unsupported, whole};
use crate::wire;
use branchyard_http_common::methods::{get, patch, post};
use branchyard_openapi::Success;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    tagged(
        "Pulls",
        vec![
            get(
                "/deployments/{owner}/{deployment}/pulls",
                "listPulls",
                "Pull requests of a database; there are none yet",
                list_pulls,
            )
            .query(&["of_database", "pull_state", "query"])
            .sends(200, Success::List("Pull"))
            .fails("", &[400, 404]),
            post(
                "/deployments/{owner}/{deployment}/pulls",
                "createPull",
                "Open a pull request; not offered yet",
                create_pull,
            )
            .sends(201, Success::Nothing)
            .fails("", &[400, 403, 404, 413, 415, 422]),
            get(
                "/deployments/{owner}/{deployment}/pulls/{pull_id}",
                "getPull",
                "A pull request; there are none yet",
                no_pull,
            )
            .sends(200, Success::Nothing)
            .fails("", &[404]),
            patch(
                "/deployments/{owner}/{deployment}/pulls/{pull_id}",
                "updatePull",
                "Change a pull request; there are none yet",
                no_pull,
            )
            .sends(200, Success::Nothing)
            .fails("", &[400, 403, 404, 413, 415]),
            get(
                "/deployments/{owner}/{deployment}/pulls/{pull_id}/comments",
                "listPullComments",
                "Comments on a pull request; there are none yet",
                no_pull,
            )
            .sends(200, Success::Nothing)
            .fails("", &[404]),
            post(
                "/deployments/{owner}/{deployment}/pulls/{pull_id}/comments",
                "createPullComment",
                "Comment on a pull request; there are none yet",
                no_pull,
            )
            .sends(201, Success::Nothing)
            .fails("", &[400, 403, 404, 413, 415]),
            get(
                "/deployments/{owner}/{deployment}/pulls/{pull_id}/logs",
                "listPullLogs",
                "Log of a pull request; there are none yet",
                no_pull,
            )
            .sends(200, Success::Nothing)
            .fails("", &[404]),
            post(
                "/deployments/{owner}/{deployment}/pulls/{pull_id}/merge",
                "mergePull",
                "Merge a pull request; there are none yet",
                no_pull,
            )
            .sends(202, Success::Nothing)
            .fails("", &[400, 403, 404, 413, 415]),
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

/// Handles `POST …/pulls`.
pub(crate) async fn create_pull(call: RequestContext) -> HandlerResult {
    call.deployment::<Observe>().await?;
    Err(unsupported("pull requests inside a deployment"))
}

/// Handles all routes below a pull request. Responds with 404, because deployments do not support pull requests yet.
pub(crate) async fn no_pull(call: RequestContext) -> Result<ApiResponse, HandlerError> {
    call.deployment::<Observe>().await?;
    let id = call.segment("pull_id");
    Err(Problem::new(ErrorCode::NotFound, format!("no pull request {id} in the deployment")).into())
}
