//! The middleware of every request: request ids, problem documents, CORS, cache headers, rate limit headers, compression.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::web::Bytes;
use actix_web::{Error, HttpMessage as _, HttpRequest, HttpResponse, web};
use branchyard_problem_details::{ErrorCode, PROBLEM_MEDIA_TYPE, Problem};

use crate::answer_budget::with_room;
use crate::caller::address_of;
use crate::coding;
use crate::handler_error::HandlerError;
use crate::rate::{QuotaCharge, QuotaHeaders};
use crate::request_id::RequestId;
use crate::state::AppState;

const EXPOSED: &str =
    "ETag, Location, Retry-After, RateLimit, RateLimit-Policy, Idempotent-Replayed, Preference-Applied, X-Request-Id";
const ALLOWED_METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
const ALLOWED_HEADERS: &str = "Authorization, Content-Type, Accept, Idempotency-Key, If-Match, If-None-Match, Prefer, \
                               X-Request-Id, traceparent";
/// Browsers use https for this host alone for a year (RFC 6797). Subdomains belong to the operator.
pub const STRICT_TRANSPORT_SECURITY: &str = "max-age=31536000";
const VARY: &str = "Authorization, Accept, Origin";

/// Assigns request ids, renders problem documents, and sets CORS, cache and rate limit headers. Middleware for an adapter's scope or
/// for the whole application: `wrap(actix_web::middleware::from_fn(layer))`.
///
/// # Errors
/// Fails with 500 if the application has no [`AppState`]; otherwise returns only the errors of the inner service.
pub async fn layer(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let Some(state) = request.app_data::<web::Data<AppState>>().cloned() else {
        return Err(actix_web::error::ErrorInternalServerError("no AppState in the application's data"));
    };
    if request.extensions_mut().insert(Layered).is_some() {
        return Ok(next.call(request).await?.map_into_boxed_body());
    }
    let id = RequestId::of_request(request.request(), &state.services);
    request.extensions_mut().insert(id.clone());
    let about = About::of(&request, &state, id);
    // Routing needs exclusive access to the request, so no clone is kept here. Handlers and extractors turn their errors into
    // responses.
    let response = next.call(request).await?.map_into_boxed_body();
    let response = with_room(&state, response, HttpResponse::from_error).await;
    Ok(about.finish(&state, response))
}

/// Marks an error response that has the API's own format and must not become a problem document. Kept in the response's extensions.
#[derive(Debug, Clone, Copy)]
pub struct OwnShape;

/// Marks the response to a client that may be silent for long before its next request on the connection, which is kept for it. Kept
/// in the response's extensions.
#[derive(Debug, Clone, Copy)]
pub struct KeepsConnection;

/// Exempts a request from the rate limits. Uploads of parts use it, because they carry their own credential.
pub fn uncounted(request: &HttpRequest) {
    request.extensions_mut().insert(QuotaCharge::Free);
}

/// Marks a request that [`layer`] handles already.
struct Layered;

/// The data of a request that its response needs.
struct About {
    id: RequestId,
    path: String,
    has_credential: bool,
    origin: Option<HeaderValue>,
    /// Whether the server is reached over https.
    is_secure: bool,
    is_preflight: bool,
    is_head: bool,
}

impl About {
    fn of(request: &ServiceRequest, state: &AppState, id: RequestId) -> Self {
        let headers = request.headers();
        Self {
            id,
            path: request.uri().path().to_owned(),
            has_credential: headers.contains_key(header::AUTHORIZATION),
            origin: allowed_origin(headers, &state.config.allowed_origins),
            is_secure: state.config.is_secure(),
            is_preflight: request.method() == Method::OPTIONS
                && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD),
            is_head: request.method() == Method::HEAD,
        }
    }

    fn finish(&self, state: &AppState, response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
        let mut response = match problem_of(&response) {
            Some(problem) => {
                let rendered = self.render(state, &problem);
                response.into_response(rendered)
            }
            None => response,
        };
        let shown = self.quota(state, response.request());
        self.add_headers(response.headers_mut());
        if let Some(shown) = shown {
            shown.add_headers(response.headers_mut());
        }
        let response = coding::compress(response);
        if self.is_head { response.map_body(|_, body| BoxBody::new(HeadBody(body.size()))) } else { response }
    }

    /// Returns the caller's quota after this request. A request that is still uncounted reached no handler and counts against the
    /// address.
    fn quota(&self, state: &AppState, request: &HttpRequest) -> Option<QuotaHeaders> {
        let counted = request.extensions().get::<QuotaCharge>().copied();
        let (address, now) = (address_of(state, request), state.services.now());
        match counted {
            Some(QuotaCharge::As(shown)) => shown,
            Some(QuotaCharge::Free) => state.rates.look_address(address, now),
            None if self.is_preflight => state.rates.look_address(address, now),
            None => state.rates.count_address(address, now),
        }
    }

    fn render(&self, state: &AppState, problem: &Problem) -> HttpResponse {
        render(state, problem, &self.path, &self.id)
    }

    fn add_headers(&self, headers: &mut HeaderMap) {
        let fixed = HeaderValue::from_static;
        if let Ok(id) = HeaderValue::from_str(self.id.as_str()) {
            headers.insert(HeaderName::from_static("x-request-id"), id);
        }
        if !headers.contains_key(header::CACHE_CONTROL) {
            let cache = if self.has_credential { "private, no-cache" } else { "public, no-cache" };
            headers.insert(header::CACHE_CONTROL, fixed(cache));
        }
        headers.insert(header::VARY, fixed(VARY));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, fixed("nosniff"));
        let is_for_all = self.origin.as_ref().is_some_and(|origin| origin == "*");
        let resource_policy = if is_for_all { "cross-origin" } else { "same-origin" };
        headers.insert(HeaderName::from_static("cross-origin-resource-policy"), fixed(resource_policy));
        if self.is_secure {
            headers.insert(header::STRICT_TRANSPORT_SECURITY, fixed(STRICT_TRANSPORT_SECURITY));
        }
        let Some(origin) = &self.origin else { return };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        if self.is_preflight {
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, fixed(ALLOWED_METHODS));
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, fixed(ALLOWED_HEADERS));
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, fixed("86400"));
        } else {
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, fixed(EXPOSED));
        }
    }
}

/// Returns 429 as a problem document for a request that reaches neither [`layer`] nor a handler.
pub fn rate_limited(state: &AppState, request: &HttpRequest, detail: &str) -> HttpResponse {
    let problem = &Problem::new(ErrorCode::RateLimited, detail).retry_after(1);
    let id = RequestId::of_request(request, &state.services);
    let mut response = render(state, problem, request.path(), &id);
    if let Ok(id) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(HeaderName::from_static("x-request-id"), id);
    }
    response
}

fn render(state: &AppState, problem: &Problem, path: &str, id: &RequestId) -> HttpResponse {
    let status = StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(status);
    for (name, value) in problem.headers() {
        response.insert_header((name, value));
    }
    let document = problem.document(&state.config.errors_url, path, id.as_str());
    response.insert_header((header::CONTENT_TYPE, PROBLEM_MEDIA_TYPE)).body(crate::api_response::to_json(&document))
}

/// The body of a response to `HEAD`: empty, but with the size of the full body. The full body is dropped without being read.
struct HeadBody(BodySize);

impl MessageBody for HeadBody {
    type Error = std::convert::Infallible;

    fn size(&self) -> BodySize {
        self.0
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Poll::Ready(None)
    }
}

fn allowed_origin(headers: &HeaderMap, allowed: &[String]) -> Option<HeaderValue> {
    if allowed.iter().any(|origin| origin == "*") {
        return Some(HeaderValue::from_static("*"));
    }
    let origin = headers.get(header::ORIGIN)?;
    allowed.iter().any(|known| known.as_bytes() == origin.as_bytes()).then(|| origin.clone())
}

/// Returns the problem for an error response that is not a problem document yet.
fn problem_of(response: &ServiceResponse<BoxBody>) -> Option<Problem> {
    if let Some(error) = response.response().error() {
        match error.as_error::<HandlerError>() {
            Some(HandlerError::Problem(problem)) => return Some(problem.clone()),
            Some(HandlerError::Replay(_)) => return None,
            None => {}
        }
    }
    if response.response().extensions().get::<OwnShape>().is_some() {
        return None;
    }
    let status = response.status();
    let done = response.headers().get(header::CONTENT_TYPE).is_some_and(|value| value == PROBLEM_MEDIA_TYPE);
    let is_error = status.is_client_error() || status.is_server_error();
    (is_error && !done).then(|| of_status(status))
}

/// Returns the problem for an error status of the framework. Our handlers return problems of their own.
fn of_status(status: StatusCode) -> Problem {
    match status.as_u16() {
        401 => Problem::new(ErrorCode::Unauthenticated, "this needs a credential"),
        403 => Problem::new(ErrorCode::PermissionDenied, "this is not allowed"),
        404 => Problem::new(ErrorCode::NotFound, "no such route"),
        405 => Problem::new(ErrorCode::MethodNotAllowed, "the route does not have this method"),
        413 => Problem::new(ErrorCode::PayloadTooLarge, "the body is too large"),
        415 => Problem::new(ErrorCode::UnsupportedMediaType, "the body must be application/json"),
        429 => Problem::new(ErrorCode::RateLimited, "too many requests"),
        503 => Problem::new(ErrorCode::ServiceUnavailable, "the server cannot do this just now; try again"),
        400..=499 => Problem::new(ErrorCode::ValidationFailed, "the request is malformed"),
        _ => Problem::internal(),
    }
}
