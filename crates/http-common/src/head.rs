//! The limit on the head of a request.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::middleware::Next;
use actix_web::{Error, HttpResponse, web};

use crate::state::AppState;

/// Middleware for the whole application: a head above `max_head_bytes` is answered 431 without a body, and the connection is
/// closed, as the parser itself does above 128 KiB.
///
/// # Errors
/// None of its own.
pub async fn head_limit(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let limit = request.app_data::<web::Data<AppState>>().map_or(usize::MAX, |state| state.config.max_head_bytes);
    if head_bytes(&request) > limit {
        let mut refused = HttpResponse::build(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        return Ok(request.into_response(refused.force_close().finish()));
    }
    Ok(next.call(request).await?.map_into_boxed_body())
}

/// About what the head had on the wire: the request line and each header with its separators.
fn head_bytes(request: &ServiceRequest) -> usize {
    const LINE: usize = "  HTTP/1.1\r\n".len() + "\r\n".len();
    const SEPARATORS: usize = ": \r\n".len();
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + SEPARATORS);
    request.method().as_str().len() + target + LINE + headers.sum::<usize>()
}
