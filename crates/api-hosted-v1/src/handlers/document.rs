use actix_web::web::Data;
use branchyard_http_common::{ApiResponse, Endpoint, RequestContext, Served, section};

use super::HandlerResult;
use crate::Settings;
use branchyard_http_common::methods::get;
use branchyard_openapi::Success;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Document",
        "/openapi.json",
        vec![get("", "getOpenapiDocument", "This document", get_openapi_document).responds(
            200,
            Success::Document,
            &[],
        )],
    )
}

/// Handles `GET /openapi.json`. Requires a credential, like every endpoint of this API.
pub(crate) async fn get_openapi_document(call: RequestContext, settings: Data<Settings>) -> HandlerResult {
    static SERVED: Served = Served::new();
    call.signed_in()?;
    let (etag, text) = SERVED.get(&settings.base_url, crate::openapi::document);
    Ok(ApiResponse::with_body(200, text).tagged(Some(etag)))
}
