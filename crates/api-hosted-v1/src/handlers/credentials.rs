use branchyard_deployments::access::Manage;
use branchyard_http_common::{ApiResponse, Endpoint, HandlerError, RequestContext, tagged};

use super::{HandlerResult, unsupported};
use branchyard_http_common::methods::{delete, get, post};
use branchyard_openapi::Success;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    tagged(
        "Settings",
        vec![
            get(
                "/deployments/{owner}/{deployment}/dolt-credentials",
                "getDoltCredentials",
                "Credentials for another hub; there are none",
                none_of_them,
            )
            .sends(200, Success::Nothing)
            .fails("", &[403, 404]),
            post(
                "/deployments/{owner}/{deployment}/dolt-credentials",
                "createDoltCredentials",
                "Create credentials for another hub; not offered",
                create_credentials,
            )
            .sends(202, Success::Nothing)
            .fails("", &[400, 403, 404, 413, 415, 422]),
            delete(
                "/deployments/{owner}/{deployment}/dolt-credentials",
                "deleteDoltCredentials",
                "Remove credentials for another hub; there are none",
                none_of_them,
            )
            .sends(202, Success::Nothing)
            .fails("", &[403, 404]),
            post(
                "/deployments/{owner}/{deployment}/dolt-credentials/reroll",
                "rerollDoltCredentials",
                "Replace credentials for another hub; there are none",
                none_of_them,
            )
            .sends(202, Success::Nothing)
            .fails("", &[400, 403, 404, 413, 415]),
        ],
    )
}

/// Handles `GET` and `DELETE …/dolt-credentials` and `POST …/dolt-credentials/reroll`. Responds with 404, because deployments
/// never have such credentials.
pub(crate) async fn none_of_them(call: RequestContext) -> Result<ApiResponse, HandlerError> {
    let access = call.deployment::<Manage>().await?;
    Err(HandlerError::not_found(format!("{} has no dolt credentials", access.deployment().locator)))
}

/// Handles `POST …/dolt-credentials`.
pub(crate) async fn create_credentials(call: RequestContext) -> HandlerResult {
    call.deployment::<Manage>().await?;
    Err(unsupported("dolt credentials"))
}
