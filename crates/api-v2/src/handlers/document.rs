use branchyard_http_common::{ApiResponse, Endpoint, RequestContext, Served, tagged};

use super::HandlerResult;
use branchyard_http_common::methods::get;
use branchyard_openapi::{Credential, Example, Success};
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    tagged(
        "Document",
        vec![
            get("/openapi.json", "getOpenapiDocument", "The OpenAPI document of this API", get_openapi_document)
                .credential(Credential::Optional)
                .sends(200, Success::Document)
                .describe("This document.")
                .example(|| Example::of(json!({"openapi": "3.1.0"}))),
        ],
    )
}

/// Handles `GET /openapi.json`.
pub(crate) async fn get_openapi_document(call: RequestContext) -> HandlerResult {
    static SERVED: Served = Served::new();
    let (etag, text) = SERVED.get(&call.state.config.public_url, crate::openapi::document);
    Ok(ApiResponse::with_body(200, text).tagged(Some(etag)))
}
