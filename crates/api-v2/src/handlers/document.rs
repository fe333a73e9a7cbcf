use branchyard_http_common::{ApiResponse, RequestContext, Served};

use super::HandlerResult;

/// `GET /openapi.json`
pub(crate) async fn get_openapi_document(call: RequestContext) -> HandlerResult {
    static SERVED: Served = Served::new();
    let (etag, text) = SERVED.get(&call.state.config.public_url, crate::openapi::document);
    Ok(ApiResponse::with_body(200, text).tagged(Some(etag)))
}
