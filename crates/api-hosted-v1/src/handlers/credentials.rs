use branchyard_deployments::access::Manage;
use branchyard_http_common::{ApiResponse, HandlerError, RequestContext};

use super::{HandlerResult, unsupported};

/// `GET`, `DELETE …/dolt-credentials`, `POST …/dolt-credentials/reroll`: there never are any.
pub(crate) async fn none_of_them(call: RequestContext) -> Result<ApiResponse, HandlerError> {
    let access = call.deployment::<Manage>().await?;
    Err(HandlerError::not_found(format!("{} has no dolt credentials", access.deployment().locator)))
}

/// `POST …/dolt-credentials`
pub(crate) async fn create_credentials(call: RequestContext) -> HandlerResult {
    call.deployment::<Manage>().await?;
    Err(unsupported("dolt credentials"))
}
