use branchyard_deployments::access::Manage;
use branchyard_http_common::{ApiResponse, Endpoint, HandlerError, RequestContext, section};

use super::{HandlerResult, unsupported};
use branchyard_http_common::methods::{delete, get, post};

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Settings",
        "/deployments/{owner}/{deployment}/dolt-credentials",
        vec![
            get("", "getDoltCredentials", "Credentials for another hub; there are none", none_of_them)
                .refuses(&[403, 404]),
            post("", "createDoltCredentials", "Create credentials for another hub; not offered", create_credentials)
                .refuses(&[400, 403, 404, 413, 415, 422]),
            delete("", "deleteDoltCredentials", "Remove credentials for another hub; there are none", none_of_them)
                .refuses(&[403, 404]),
            post(
                "/reroll",
                "rerollDoltCredentials",
                "Replace credentials for another hub; there are none",
                none_of_them,
            )
            .refuses(&[400, 403, 404, 413, 415]),
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
