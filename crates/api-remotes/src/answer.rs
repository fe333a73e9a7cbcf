//! Answers, and the shape of errors: clients find `code`, `sqlite` and `message` by their names, and show the message as it is.

use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use actix_web::http::{StatusCode, header};
use actix_web::{HttpRequest, HttpResponse, ResponseError as _, web};
use branchyard_http_common::{HandlerError, OwnShape};
use branchyard_problem_details::Problem;
use serde_json::json;

use crate::endpoint::RemoteEndpoint;
use crate::observer::SharedObserver;

/// The result of a handler: a response, or the error to convert.
pub(crate) type Outcome = Result<HttpResponse, HandlerError>;

/// The media type of everything that is not an error.
pub(crate) const BYTES: &str = "application/octet-stream";

/// An error as clients know it.
struct RemoteCode {
    /// The value of `code`.
    code: &'static str,
    /// The SQLite result code that the client's user gets, or that makes the client try again.
    sqlite: u16,
}

/// Returns the code for a status.
fn code_of(status: StatusCode) -> RemoteCode {
    let (code, sqlite) = match status.as_u16() {
        401 => ("unauthorized", 23),
        403 => ("forbidden", 23),
        404 => ("not_found", 12),
        413 => ("toobig", 18),
        429 => ("rate_limited", 1),
        503 => ("busy", 5),
        400..=499 => ("bad_request", 1),
        _ => ("internal", 1),
    };
    RemoteCode { code, sqlite }
}

/// Returns the response of a handler, and reports it.
pub(crate) fn respond(request: &HttpRequest, endpoint: RemoteEndpoint, outcome: Outcome) -> HttpResponse {
    let (response, reported) = match outcome {
        Ok(mut response) => {
            // What is sent depends on the moment and the caller, and no cache knows the protocol.
            response.headers_mut().insert(CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
            (response, "ok")
        }
        Err(HandlerError::Problem(problem)) => render(&problem),
        // The protocol has no idempotency keys.
        Err(error @ HandlerError::Replay(_)) => (error.error_response(), "ok"),
    };
    if let Some(observer) = request.app_data::<web::Data<SharedObserver>>() {
        observer.answered(endpoint, reported);
    }
    response
}

fn render(problem: &Problem) -> (HttpResponse, &'static str) {
    let status = StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let RemoteCode { code, sqlite } = code_of(status);
    let body = json!({ "code": code, "sqlite": sqlite, "message": shown(problem.detail()) });
    let mut response = HttpResponse::build(status);
    for (name, value) in problem.headers() {
        response.insert_header((name, value));
    }
    let mut response = response.insert_header((CONTENT_TYPE, "application/json")).body(body.to_string());
    response.extensions_mut().insert(OwnShape);
    (response, code)
}

/// Returns a text without what a client shows wrongly: it does not undo escapes.
fn shown(text: &str) -> String {
    let replace = |c| match c {
        '"' => '\'',
        '\\' => '/',
        c if c.is_control() => ' ',
        c => c,
    };
    text.chars().map(replace).collect()
}

#[cfg(test)]
mod tests {
    use actix_web::body::to_bytes;
    use branchyard_problem_details::ErrorCode;
    use serde_json::Value;

    use super::*;

    #[actix_web::test]
    async fn an_error_is_a_json_object_whose_message_needs_no_escapes() {
        let problem = Problem::new(ErrorCode::NotFound, "no \"such\"\nthing \\ here: ä").retry_after(3);
        let (response, code) = render(&problem);
        assert_eq!((response.status().as_u16(), code), (404, "not_found"));
        assert_eq!(response.headers().get("retry-after").unwrap(), "3");
        assert!(response.extensions().get::<OwnShape>().is_some());
        let body = to_bytes(response.into_body()).await.unwrap();
        let value: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(value, json!({ "code": "not_found", "sqlite": 12, "message": "no 'such' thing / here: ä" }));
        assert!(!body[1..].contains(&b'\\'));
    }

    #[test]
    fn every_status_has_a_code_that_clients_know() {
        for (status, code, sqlite) in [
            (400, "bad_request", 1),
            (401, "unauthorized", 23),
            (403, "forbidden", 23),
            (404, "not_found", 12),
            (405, "bad_request", 1),
            (413, "toobig", 18),
            (422, "bad_request", 1),
            (429, "rate_limited", 1),
            (500, "internal", 1),
            (503, "busy", 5),
        ] {
            let found = code_of(StatusCode::from_u16(status).unwrap());
            assert_eq!((found.code, found.sqlite), (code, sqlite), "{status}");
        }
    }
}
