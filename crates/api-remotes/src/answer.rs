//! Answers, and the shape of errors: clients find `code`, `sqlite` and `message` by their names, and show the message as it is.

use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use actix_web::http::{StatusCode, header};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, ResponseError as _, web};
use branchyard_domain::errors::RemoteError;
use branchyard_http_common::{HandlerError, KeepsConnection, OwnShape};
use branchyard_problem_details::Problem;
use serde_json::json;

use crate::endpoint::RemoteEndpoint;
use crate::observer::SharedObserver;

/// The result of a handler: a response, or the error to convert.
pub(crate) type Outcome = Result<HttpResponse, Refusal>;

/// The media type of everything that is not an error.
pub(crate) const BYTES: &str = "application/octet-stream";

/// Why a request was refused.
pub(crate) enum Refusal {
    /// For a reason that all adapters know.
    Common(HandlerError),
    /// For one that the protocol has a code for.
    Own(OwnRefusal),
    /// It was not served here: another node has answered it, perhaps with success.
    Passed(HttpResponse),
}

impl From<HandlerError> for Refusal {
    fn from(error: HandlerError) -> Self {
        Self::Common(error)
    }
}

impl From<OwnRefusal> for Refusal {
    fn from(refusal: OwnRefusal) -> Self {
        Self::Own(refusal)
    }
}

/// A refusal that the protocol has a code for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OwnRefusal {
    status: StatusCode,
    code: RemoteCode,
    message: String,
}

impl OwnRefusal {
    /// The ref changed meanwhile, or a chunk is missing: clients repeat the push.
    const REPEATED: u16 = 517;

    /// Returns the refusal for an error, or the error if the protocol has no code of its own for it.
    pub(crate) fn of(error: RemoteError) -> Result<Self, RemoteError> {
        let (status, code, sqlite) = match &error {
            RemoteError::RefsChanged => (StatusCode::CONFLICT, "refs_changed", Self::REPEATED),
            RemoteError::MissingChunks => (StatusCode::CONFLICT, "missing_chunks", Self::REPEATED),
            RemoteError::InUse(_) => (StatusCode::CONFLICT, "working_set", 6),
            RemoteError::Rejected(_) => (StatusCode::BAD_REQUEST, "rejected", 1),
            RemoteError::NotFastForward(_) => (StatusCode::BAD_REQUEST, "non_ff", 19),
            _ => return Err(error),
        };
        Ok(Self { status, code: RemoteCode { code, sqlite }, message: error.to_string() })
    }

    /// The work goes on. Clients repeat the request, and join it.
    pub(crate) fn busy(message: &str) -> Self {
        let code = RemoteCode { code: "busy", sqlite: 5 };
        Self { status: StatusCode::SERVICE_UNAVAILABLE, code, message: message.to_owned() }
    }
}

/// An error as clients know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        422 => ("rejected", 1),
        429 => ("rate_limited", 1),
        503 => ("busy", 5),
        400..=499 => ("bad_request", 1),
        _ => ("internal", 1),
    };
    RemoteCode { code, sqlite }
}

/// Returns the response of a handler, and reports it.
pub(crate) fn respond(request: &HttpRequest, endpoint: RemoteEndpoint, outcome: Outcome) -> HttpResponse {
    let (mut response, reported) = match outcome {
        Ok(mut response) => {
            // What is sent depends on the moment and the caller, and no cache knows the protocol.
            response.headers_mut().insert(CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
            (response, "ok")
        }
        Err(Refusal::Common(HandlerError::Problem(problem))) => render(&problem),
        // The protocol has no idempotency keys.
        Err(Refusal::Common(error @ HandlerError::Replay(_))) => (error.error_response(), "ok"),
        Err(Refusal::Passed(response)) => (response, "passed_on"),
        Err(Refusal::Own(OwnRefusal { status, code, message })) => {
            (error(HttpResponse::build(status), code, &message), code.code)
        }
    };
    response.extensions_mut().insert(KeepsConnection);
    if let Some(observer) = request.app_data::<web::Data<SharedObserver>>() {
        observer.answered(endpoint, reported);
    }
    response
}

fn render(problem: &Problem) -> (HttpResponse, &'static str) {
    let status = StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let code = code_of(status);
    // The protocol has one status for what is refused for what it is.
    let status = if status == StatusCode::UNPROCESSABLE_ENTITY { StatusCode::BAD_REQUEST } else { status };
    let mut response = HttpResponse::build(status);
    for (name, value) in problem.headers() {
        response.insert_header((name, value));
    }
    (error(response, code, problem.detail()), code.code)
}

fn error(mut response: HttpResponseBuilder, RemoteCode { code, sqlite }: RemoteCode, message: &str) -> HttpResponse {
    let body = json!({ "code": code, "sqlite": sqlite, "message": shown(message) });
    let mut response = response.insert_header((CONTENT_TYPE, "application/json")).body(body.to_string());
    response.extensions_mut().insert(OwnShape);
    response
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
        let (response, code) = render(&Problem::new(ErrorCode::Unprocessable, "it is a mirror"));
        assert_eq!((response.status().as_u16(), code), (400, "rejected"));
    }

    #[test]
    fn a_push_is_refused_with_codes_that_make_clients_stop_or_repeat_it() {
        for (error, status, code, sqlite) in [
            (RemoteError::RefsChanged, 409, "refs_changed", 517),
            (RemoteError::MissingChunks, 409, "missing_chunks", 517),
            (RemoteError::InUse("used".to_owned()), 409, "working_set", 6),
            (RemoteError::Rejected("bad".to_owned()), 400, "rejected", 1),
            (RemoteError::NotFastForward("behind".to_owned()), 400, "non_ff", 19),
        ] {
            let refusal = OwnRefusal::of(error).unwrap();
            assert_eq!((refusal.status.as_u16(), refusal.code.code, refusal.code.sqlite), (status, code, sqlite));
        }
        assert!(OwnRefusal::of(RemoteError::NoPushes).is_err());
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
            (422, "rejected", 1),
            (429, "rate_limited", 1),
            (500, "internal", 1),
            (503, "busy", 5),
        ] {
            let found = code_of(StatusCode::from_u16(status).unwrap());
            assert_eq!((found.code, found.sqlite), (code, sqlite), "{status}");
        }
    }
}
