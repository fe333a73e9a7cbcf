//! The size limit for the head of a request.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::middleware::Next;
use actix_web::{Error, HttpResponse, web};

use crate::state::AppState;

/// Limits the request line and headers to `max_head_bytes`. A larger head is answered with 431 without a body, and the connection is
/// closed. The parser does the same above 128 KiB. Middleware for the whole application.
///
/// # Errors
/// Returns only the errors of the inner service.
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

/// Returns the approximate size of the head as it was sent: the request line and each header with its separators.
fn head_bytes(request: &ServiceRequest) -> usize {
    const LINE: usize = "  HTTP/1.1\r\n".len() + "\r\n".len();
    const SEPARATORS: usize = ": \r\n".len();
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + SEPARATORS);
    request.method().as_str().len() + target + LINE + headers.sum::<usize>()
}
