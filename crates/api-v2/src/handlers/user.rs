use branchyard_http_common::{ApiResponse, Endpoint, RequestContext, tagged};

use super::HandlerResult;
use crate::wire;
use branchyard_http_common::methods::get;
use branchyard_openapi::{Example, Success, one};
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    tagged(
        "User",
        vec![get("/user", "getCurrentUser", "The caller", get_current_user).sends(200, Success::One("User")).example(
            || {
                Example::of(one(json!({
                    "username": "ada", "display_name": "Ada",
                    "email_addresses": [{"address": "ada@example.test", "is_primary": true, "is_verified": true}],
                })))
            },
        )],
    )
}

/// Handles `GET /user`.
pub(crate) async fn get_current_user(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    Ok(ApiResponse::resource(200, &wire::User::from(user.as_ref())))
}
