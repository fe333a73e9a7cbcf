use actix_web::HttpResponse;
use actix_web::http::header;

use crate::asked::{Asked, JSON, Statuses};
use crate::wire;

/// `GET /openapi.json`
pub(crate) async fn get_openapi_document(asked: Asked) -> HttpResponse {
    match asked.call() {
        Ok(call) => HttpResponse::Ok()
            .insert_header((header::CONTENT_TYPE, JSON))
            .body(crate::openapi::document(&call.state.config.public_url).to_string()),
        Err(failure) => asked.refuse(Statuses::Flat, &failure, &wire::Nothing {}),
    }
}
