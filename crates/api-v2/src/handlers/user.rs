use branchyard_http_common::{ApiResponse, Endpoint, RequestContext, section};

use super::HandlerResult;
use crate::wire;
use branchyard_http_common::methods::get;
use branchyard_openapi::Success;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "User",
        "/user",
        vec![get("", "getCurrentUser", "The caller", get_current_user).responds(200, Success::One("User"), &[])],
    )
}

/// Handles `GET /user`.
pub(crate) async fn get_current_user(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    Ok(ApiResponse::resource(200, &wire::User::from(user.as_ref())))
}
