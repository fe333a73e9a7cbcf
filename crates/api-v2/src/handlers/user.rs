use branchyard_http_common::{ApiResponse, RequestContext};

use super::HandlerResult;
use crate::wire;

/// `GET /user`
pub(crate) async fn get_current_user(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    Ok(ApiResponse::resource(200, &wire::User::from(user.as_ref())))
}
