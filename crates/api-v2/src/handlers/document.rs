use branchyard_http_common::{ApiResponse, Endpoint, RequestContext, Served, section};

use super::HandlerResult;
use branchyard_http_common::methods::get;
use branchyard_openapi::{Credential, Success};

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Document",
        "/openapi.json",
        vec![
            get("", "getOpenapiDocument", "The OpenAPI document of this API", get_openapi_document)
                .credential(Credential::Optional)
                .responds(200, Success::Document, &[])
                .describe("This document."),
        ],
    )
}

/// Handles `GET /openapi.json`.
pub(crate) async fn get_openapi_document(call: RequestContext) -> HandlerResult {
    static SERVED: Served = Served::new();
    let (etag, text) = SERVED.get(&call.state.config.public_url, crate::openapi::document);
    Ok(ApiResponse::with_body(200, text).tagged(Some(etag)))
}
