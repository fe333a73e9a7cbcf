//! The HTTP listener of a process: routing, authentication, bodies and responses.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use actix_web::dev::Server;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderMap, HeaderValue};
use actix_web::{App, HttpRequest, HttpResponse, HttpResponseBuilder, HttpServer, web};
use branchyard_deployments::ports::SqlCaller;
use branchyard_deployments::values::Setting;
use branchyard_domain::values::DatabaseId;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use serde_json::json;

use super::address::{self, ChildEndpoint, SqlTarget};
use super::counters::Counters;
use super::slots::MOST_LONG;
use super::state::Child;
use super::{cursor, pipeline};
use crate::hrana::errors::HttpError;

/// Threads for long requests and for those blocked on a slow client, in addition to the threads of the slots.
const SPARE_THREADS: usize = MOST_LONG;
/// Maximum number of connections. Lower than the limit of open files, because databases need files too.
const CONNECTIONS: usize = 512;

/// An open connection, counted until it is dropped.
struct OpenConnection(Arc<Counters>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) fn server(child: Arc<Child>, address: (IpAddr, u16), threads: usize) -> io::Result<Server> {
    let counters = Arc::clone(&child.counters);
    let head_timeout = child.millis(Setting::ListenerReadTimeoutMillis);
    let data = web::Data::from(child);
    let server = HttpServer::new(move || App::new().app_data(data.clone()).default_service(web::to(any)))
        .workers(1)
        .worker_max_blocking_threads(threads + SPARE_THREADS)
        .max_connections(CONNECTIONS)
        // A client that closes its sending side counts as gone, so that its statements are canceled.
        .h1_allow_half_closed(false)
        .client_request_timeout(head_timeout)
        .keep_alive(Duration::from_secs(75))
        .disable_signals()
        // Seconds for finished responses to be sent.
        .shutdown_timeout(1)
        .on_connect(move |_, extensions| {
            let connections: &AtomicI64 = &counters.connections;
            connections.fetch_add(1, Ordering::Relaxed);
            extensions.insert(OpenConnection(Arc::clone(&counters)));
        })
        .bind(address)?
        .run();
    Ok(server)
}

async fn any(request: HttpRequest, payload: web::Payload, child: web::Data<Child>) -> HttpResponse {
    let child = child.into_inner();
    let origin = allowed_origin(&child, &request);
    let mut response = match origin.as_deref() {
        Some(_) if is_preflight(&request) => preflight(),
        _ => match answer(&request, payload, &child).await {
            Ok(response) => response,
            Err(error) => refusal(&error),
        },
    };
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&request_id(&request, &child)) {
        headers.insert(header::HeaderName::from_static("x-request-id"), id);
    }
    if let Some(origin) = origin {
        allow_origin(headers, &origin);
    }
    response
}

async fn answer(request: &HttpRequest, payload: web::Payload, child: &Arc<Child>) -> Result<HttpResponse, HttpError> {
    let (target, endpoint) = address::parse(request.uri().path())
        .ok_or_else(|| HttpError::NotFound("there is nothing at this path".into()))?;
    let method = request.method().as_str();
    if method != endpoint.method() && !(method == "HEAD" && endpoint.method() == "GET") {
        return Err(HttpError::MethodNotAllowed { allow: endpoint.method() });
    }
    match endpoint {
        ChildEndpoint::Health => {
            child.check_open()?;
            Ok(HttpResponse::Ok().json(json!({"status": "ok"})))
        }
        ChildEndpoint::Version => Ok(HttpResponse::Ok().content_type("text/plain").body("supported\n")),
        ChildEndpoint::Metrics => {
            let (_, _) = called(request, child, &target).await?;
            if !child.spec.expose_stats {
                return Err(HttpError::NotFound("there is nothing at this path".into()));
            }
            let text = child.counters.prometheus(child.streams.count());
            Ok(HttpResponse::Ok().content_type("text/plain; version=0.0.4").body(text))
        }
        ChildEndpoint::Pipeline | ChildEndpoint::Cursor => {
            let running = child.requests.begin();
            child.check_open()?;
            let (caller, database) = called(request, child, &target).await?;
            let body = read(request, payload, child).await?;
            let child = Arc::clone(child);
            // If the client disconnects, this future is dropped, and the request is canceled. The request runs in a task of its
            // own, which closes or returns its stream in any case.
            if endpoint == ChildEndpoint::Cursor {
                let answered = actix_web::rt::spawn(cursor::answer(child, caller, database, target, body, running));
                return answered.await.map_err(|_| HttpError::Internal)?.map(rows);
            }
            let _gone = running.cancel_on_drop();
            let counters = Arc::clone(&child.counters);
            let answered = actix_web::rt::spawn(async move {
                let answer = pipeline::answer(child, caller, database, target, body, running.canceled()).await;
                drop(running);
                answer
            });
            let body = answered.await.map_err(|_| HttpError::Internal)??;
            counters.sent.fetch_add(u64::try_from(body.len()).unwrap_or(0), Ordering::Relaxed);
            Ok(HttpResponse::Ok().content_type("application/json").body(body))
        }
    }
}

fn rows(answer: cursor::CursorAnswer) -> HttpResponse {
    let pieces = stream::unfold(answer, |mut answer| async move {
        let piece = answer.pieces.recv().await?;
        Some((Ok::<Bytes, actix_web::Error>(piece), answer))
    });
    HttpResponse::Ok().content_type("application/x-ndjson").streaming(pieces)
}

/// Authenticates the caller and finds the database.
async fn called(
    request: &HttpRequest,
    child: &Child,
    target: &SqlTarget,
) -> Result<(SqlCaller, DatabaseId), HttpError> {
    let mut sent = request.headers().get_all(header::AUTHORIZATION);
    let header = match (sent.next(), sent.next()) {
        (None, _) => None,
        // A header that is not text, or that is repeated, counts as an invalid credential.
        (Some(one), None) => Some(one.to_str().unwrap_or_default()),
        (Some(_), Some(_)) => Some(""),
    };
    let address = request.peer_addr().map(|address| address.ip());
    let caller = child.callers.check(header, address, child.clock.now()).await?;
    let database = child.databases.find(target.database.as_deref()).ok_or_else(|| {
        HttpError::NotFound(format!("no database {}", target.database.as_deref().unwrap_or_default()))
    })?;
    Ok((caller, database))
}

async fn read(request: &HttpRequest, mut payload: web::Payload, child: &Child) -> Result<Bytes, HttpError> {
    let most = child.number(Setting::ListenerMaxRequestBytes);
    let too_large = || HttpError::PayloadTooLarge(most);
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: u64| length > most) {
        return Err(too_large());
    }
    let whole = async {
        let mut body = BytesMut::new();
        while let Some(piece) = payload.next().await {
            let piece = piece.map_err(|error| HttpError::Protocol(format!("the body broke off: {error}")))?;
            if u64::try_from(body.len() + piece.len()).unwrap_or(u64::MAX) > most {
                return Err(too_large());
            }
            body.extend_from_slice(&piece);
        }
        Ok(body.freeze())
    };
    let patience = child.millis(Setting::ListenerReadTimeoutMillis);
    let body = tokio::time::timeout(patience, whole).await.map_err(|_| {
        HttpError::Protocol("the body came too slowly; listener_read_timeout_millis says how fast".into())
    })??;
    child.counters.received.fetch_add(u64::try_from(body.len()).unwrap_or(0), Ordering::Relaxed);
    Ok(body)
}

fn refusal(error: &HttpError) -> HttpResponse {
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut builder = HttpResponseBuilder::new(status);
    match error {
        HttpError::Unauthenticated { sent: false } => {
            builder.insert_header((header::WWW_AUTHENTICATE, r#"Bearer realm="branchyard""#));
        }
        HttpError::Unauthenticated { sent: true } => {
            builder.insert_header((header::WWW_AUTHENTICATE, r#"Bearer realm="branchyard", error="invalid_token""#));
        }
        HttpError::MethodNotAllowed { allow } => {
            builder.insert_header((header::ALLOW, *allow));
        }
        HttpError::TooManyStreams(_) | HttpError::RateLimited | HttpError::Unavailable(_) => {
            builder.insert_header((header::RETRY_AFTER, "1"));
        }
        _ => {}
    }
    // Clients compare the content type as a string, so it must have no parameters.
    builder
        .insert_header((header::CONTENT_TYPE, "application/json"))
        .body(json!({"message": error.message(), "code": error.code()}).to_string())
}

/// Returns the client's request id if it is well-formed, or a new one.
fn request_id(request: &HttpRequest, child: &Child) -> String {
    let sent = request.headers().get("x-request-id").and_then(|id| id.to_str().ok());
    let fit = |id: &&str| {
        (1..=128).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-'))
    };
    sent.filter(fit).map_or_else(|| format!("req_{}", child.fresh_id().hyphenated()), str::to_owned)
}

/// Returns the value of `Access-Control-Allow-Origin` if the request's origin is allowed.
fn allowed_origin(child: &Child, request: &HttpRequest) -> Option<String> {
    let origin = request.headers().get(header::ORIGIN)?.to_str().ok()?;
    let settings = child.settings();
    let allowed = settings.get(Setting::ListenerAllowedOrigins);
    if allowed == "*" {
        return Some("*".to_owned());
    }
    allowed.split(',').any(|one| one.trim() == origin).then(|| origin.to_owned())
}

fn is_preflight(request: &HttpRequest) -> bool {
    request.method() == actix_web::http::Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight() -> HttpResponse {
    HttpResponse::NoContent()
        .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST"))
        .insert_header((header::ACCESS_CONTROL_ALLOW_HEADERS, "Authorization, Content-Type, X-Request-Id"))
        .insert_header((header::ACCESS_CONTROL_MAX_AGE, "600"))
        .finish()
}

fn allow_origin(headers: &mut HeaderMap, origin: &str) {
    if let Ok(value) = HeaderValue::from_str(origin) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, value);
    }
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("X-Request-Id"));
    if origin != "*" {
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
    }
}
