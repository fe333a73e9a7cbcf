use branchyard_http_common::{Answer, Call, Served};

use super::Outcome;

/// `GET /openapi.json`
pub(crate) async fn get_openapi_document(call: Call) -> Outcome {
    static SERVED: Served = Served::new();
    let (etag, text) = SERVED.get(&call.state.config.public_url, crate::openapi::document);
    Ok(Answer::with_body(200, text).tagged(Some(etag)))
}
