//! One request to an instance, and its response.

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse};
use branchyard_http_common::BodyTimeouts;
use futures_util::{StreamExt as _, stream};

use crate::admission::AdmittedRequest;
use crate::body::passed_body;
use crate::headers::{is_end_to_end, nominated_headers};
use crate::refusals::{refuse, unavailable};

/// Forwards a request. Its permit is held until the response has been sent or dropped.
pub(crate) async fn forward(
    request: &HttpRequest,
    payload: Payload,
    admitted: AdmittedRequest,
    client: &reqwest::Client,
    patience: &BodyTimeouts,
) -> HttpResponse {
    let AdmittedRequest { instance, permit } = admitted;
    let tail = request.match_info().get("tail").filter(|tail| !tail.is_empty()).unwrap_or("/");
    let query = request.query_string();
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    let Ok(method) = reqwest::Method::from_bytes(request.method().as_str().as_bytes()) else {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", "unknown method");
    };
    let mut passed = client.request(method, format!("http://{instance}{tail}{query}"));
    let nominated = nominated_headers(request.headers().get_all(header::CONNECTION).map(HeaderValue::as_bytes));
    for (name, value) in request.headers() {
        if is_end_to_end(name.as_str(), &nominated) {
            passed = passed.header(name.as_str(), value.as_bytes());
        }
    }
    let mut broken = None;
    if let Some((body, why)) = passed_body(request, payload, patience) {
        passed = passed.body(body);
        broken = Some(why);
    }
    let answer = match passed.send().await {
        Ok(answer) => answer,
        Err(error) => {
            if let Some(why) = broken.and_then(|broken| broken.get()) {
                return refuse(StatusCode::BAD_REQUEST, "PROTOCOL_ERROR", &why.to_string());
            }
            tracing::debug!(%error, "an instance did not answer");
            return unavailable("the instance does not answer just now; try again");
        }
    };
    let status = StatusCode::from_u16(answer.status().as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = HttpResponse::build(status);
    let connection = answer.headers().get_all(reqwest::header::CONNECTION).iter();
    let nominated = nominated_headers(connection.map(reqwest::header::HeaderValue::as_bytes));
    for (name, value) in answer.headers() {
        if is_end_to_end(name.as_str(), &nominated) {
            response.append_header((name.as_str(), value.as_bytes()));
        }
    }
    // Streamed as the instance produces it. If the instance's response breaks off, this one does too.
    let pieces = stream::try_unfold((answer, permit), |(mut answer, permit)| async move {
        let piece = answer.chunk().await.map_err(std::io::Error::other)?;
        Ok::<_, std::io::Error>(piece.map(|piece| (piece, (answer, permit))))
    });
    response.streaming(pieces.boxed_local())
}

#[cfg(test)]
mod tests;
