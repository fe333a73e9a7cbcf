use actix_web::HttpResponse;
use actix_web::http::header;
use branchyard_http_common::Served;

use crate::request::{JSON, LegacyRequest, Statuses};
use crate::wire;

/// Handles `GET /openapi.json`.
pub(crate) async fn get_openapi_document(asked: LegacyRequest) -> HttpResponse {
    static SERVED: Served = Served::new();
    match asked.call() {
        Ok(call) => {
            let (_, text) = SERVED.get(&call.state.config.public_url, crate::openapi::document);
            HttpResponse::Ok().insert_header((header::CONTENT_TYPE, JSON)).body(text)
        }
        Err(failure) => asked.refuse(Statuses::Flat, &failure, &wire::Nothing {}),
    }
}
