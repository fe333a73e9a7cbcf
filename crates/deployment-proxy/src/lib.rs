//! Deployments through the server's own listener: requests below `…/sql/` go to the instance as they are, and its answers come
//! back as they are, both piece by piece: the limits of bodies are the instance's own. Answers of the gateway's own have the shape that clients of SQL know, not that of the API.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::web::{Bytes, Data, Payload};
use actix_web::{HttpRequest, HttpResponse, web};
use branchyard_auth::{HashedToken, PlainToken};
use branchyard_deployments::access::Observe;
use branchyard_deployments::errors::DeploymentError;
use branchyard_domain::access::Caller;
use branchyard_domain::errors::Fault;
use branchyard_http_common::{
    AppState, BodyClock, BodyTimeouts, Guesses, HostedAddresses, RequestId, Services, path_segment,
};
use futures_util::{StreamExt as _, stream};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Pieces of a body between its client and the instance.
const PIECES: usize = 2;
/// Rejected credentials of an address in a second, as an instance takes them by itself.
const REJECTED: u32 = 10;
const REQUEST_ID: &str = "x-request-id";
/// How long a connection to an instance is kept for the next request: less than the instance keeps it, as a body that is passed on cannot be sent twice.
const IDLE: Duration = Duration::from_secs(30);
/// Time to reach an instance on this machine.
const CONNECT: Duration = Duration::from_secs(5);

/// Headers that belong to one connection, not to the message.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The proxy of a server. Made once and mounted in every worker.
#[derive(Clone)]
pub struct DeploymentProxy {
    /// Counts rejected credentials, of all workers together.
    guesses: Data<Guesses>,
}

impl DeploymentProxy {
    /// Returns a proxy.
    ///
    /// # Errors
    /// If no HTTP client can be built here, for example without a source of random numbers.
    pub fn new() -> reqwest::Result<Self> {
        client()?;
        Ok(Self { guesses: Data::new(Guesses::new(REJECTED, 1)) })
    }

    /// Mounts the proxy. It has to come before the API, whose scope would answer for these paths.
    pub fn configure(&self, config: &mut web::ServiceConfig) {
        let path = format!("{}/deployments/{{owner}}/{{deployment}}/sql{{tail:(?:/.*)?}}", HostedAddresses::BASE);
        match client() {
            Ok(client) => {
                let resource = web::resource(path).app_data(Data::new(client)).app_data(self.guesses.clone());
                config.service(resource.to(pass));
            }
            // It was possible when the server started.
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a worker cannot reach deployments");
                let busy = || async { unavailable("the server cannot reach deployments just now; try again") };
                config.service(web::resource(path).to(busy));
            }
        }
    }
}

/// A client for one worker: connections belong to the worker's runtime.
fn client() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder().connect_timeout(CONNECT).pool_idle_timeout(IDLE).no_proxy().build()
}

/// An answer of the gateway's own.
fn refuse(status: StatusCode, code: &str, message: &str) -> HttpResponse {
    let mut response = HttpResponse::build(status);
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        response.insert_header((header::RETRY_AFTER, "1"));
    }
    let body = serde_json::json!({"message": message, "code": code}).to_string();
    response.insert_header((header::CONTENT_TYPE, "application/json")).body(body)
}

fn unavailable(message: &str) -> HttpResponse {
    refuse(StatusCode::SERVICE_UNAVAILABLE, "SERVICE_UNAVAILABLE", message)
}

/// The one bearer token of a request.
fn token(request: &HttpRequest) -> Option<PlainToken> {
    let mut values = request.headers().get_all(header::AUTHORIZATION);
    let (value, None) = (values.next()?.to_str().ok()?, values.next()) else { return None };
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| PlainToken::parse(token.trim()).ok()).flatten()
}

/// 401. `sent`: a credential was, but it is not good.
fn unauthenticated(sent: bool) -> HttpResponse {
    let mut response = refuse(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", "this needs a live token");
    let why = if sent { r#"Bearer realm="branchyard", error="invalid_token""# } else { r#"Bearer realm="branchyard""# };
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(why));
    response
}

/// What a browser asks before a page of another origin may ask something. It carries no credential, so the answer is the same whatever deployment is
/// meant, and whether there is one; that the page may read the answers is what the instance says on them.
fn preflight(request: &HttpRequest) -> Option<HttpResponse> {
    let headers = request.headers();
    let asks = request.method() == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let origin = headers.get(header::ORIGIN).filter(|_| asks)?;
    let mut response = HttpResponse::NoContent();
    response.insert_header((header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone()));
    response.insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST"));
    response.insert_header((header::ACCESS_CONTROL_ALLOW_HEADERS, "Authorization, Content-Type, X-Request-Id"));
    response.insert_header((header::ACCESS_CONTROL_MAX_AGE, "600"));
    response.insert_header((header::VARY, "Origin"));
    Some(response.finish())
}

/// Returns the lowercase names that `Connection` headers nominate: they belong to the connection as well (RFC 9110 §7.6.1).
fn nominated_headers<'a>(connection: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let values = connection.map(|value| String::from_utf8_lossy(value).to_ascii_lowercase());
    values.flat_map(|value| value.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>()).collect()
}

/// Returns `true` if a header, given in lowercase, is part of the message. A credential is one whatever the client nominates: without it the instance
/// would answer another caller.
fn is_end_to_end(name: &str, nominated: &[String]) -> bool {
    let belongs_to_connection = HOP_BY_HOP.contains(&name) || nominated.iter().any(|known| known == name);
    name == "authorization" || !belongs_to_connection
}

/// Why a request is not passed on.
enum Refused {
    BadToken,
    NoDeployment(String),
    NotStarted(String),
    Fault(Fault),
}

fn admit(services: &Services, token: &HashedToken, owner: &str, name: &str) -> Result<std::net::SocketAddr, Refused> {
    let user = match services.tokens().check(token) {
        Ok(found) => found.map(|(_, user)| user).ok_or(Refused::BadToken)?,
        Err(fault) => return Err(Refused::Fault(fault)),
    };
    let refused = |error: DeploymentError| match error {
        DeploymentError::Fault(fault) => Refused::Fault(fault),
        DeploymentError::Conflict(text) => Refused::NotStarted(text),
        other => Refused::NoDeployment(other.to_string()),
    };
    let caller = Caller::User(user);
    let access = services.deployments().access::<Observe>(&caller, owner, name).map_err(refused)?;
    services.deployments().address(&access).map_err(refused)
}

async fn pass(
    request: HttpRequest,
    payload: Payload,
    state: Data<AppState>,
    guesses: Data<Guesses>,
    client: Data<reqwest::Client>,
) -> HttpResponse {
    let mut response = match preflight(&request) {
        Some(response) => response,
        None => answer(&request, payload, &state, &guesses, &client).await,
    };
    if !response.headers().contains_key(REQUEST_ID) {
        let id = RequestId::of(request.headers(), &state.hub);
        if let Ok(id) = HeaderValue::from_str(id.as_str()) {
            response.headers_mut().insert(HeaderName::from_static(REQUEST_ID), id);
        }
    }
    response
}

async fn answer(
    request: &HttpRequest,
    payload: Payload,
    state: &AppState,
    guesses: &Guesses,
    client: &reqwest::Client,
) -> HttpResponse {
    let (owner, name) = (path_segment(request, "owner"), path_segment(request, "deployment"));
    if !request.headers().contains_key(header::AUTHORIZATION) {
        return unauthenticated(false);
    }
    let (from, now) = (state.client_address(request), state.hub.now());
    let hash = token(request).map(|token| token.hash());
    // Before any look-up: guessing costs us nothing once the address has used up its quota.
    if guesses.wait(from, hash.as_ref().map(HashedToken::as_bytes), now).is_some() {
        let text = "too many credentials of this address were rejected; try again in a second";
        return refuse(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED", text);
    }
    let Some(hash) = hash else {
        guesses.reject(from, now);
        return unauthenticated(true);
    };
    let (services, known) = (state.hub.clone(), *hash.as_bytes());
    let admitted = web::block(move || admit(&services, &hash, &owner, &name)).await;
    if matches!(admitted, Ok(Ok(_))) {
        guesses.accept(known);
    }
    let address = match admitted {
        Ok(Ok(address)) => address,
        Ok(Err(Refused::BadToken)) => {
            guesses.reject(from, now);
            return unauthenticated(true);
        }
        Ok(Err(Refused::NoDeployment(text))) => return refuse(StatusCode::NOT_FOUND, "NOT_FOUND", &text),
        Ok(Err(Refused::NotStarted(text))) => return unavailable(&text),
        Ok(Err(Refused::Fault(fault))) => {
            tracing::error!(error = &fault as &dyn std::error::Error, "the gateway could not ask the store");
            return unavailable("the server cannot do this just now; try again");
        }
        Err(_) => return unavailable("the server is busy"),
    };
    forward(request, payload, address, client, &state.config.patience).await
}

/// Why a body did not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    CutShort,
    TooSlow,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CutShort => "the body was cut short",
            Self::TooSlow => "the body came too slowly",
        })
    }
}

impl std::error::Error for Broken {}

/// A body on its way from its client to the instance.
struct PassedBody {
    pieces: mpsc::Receiver<Result<Bytes, Broken>>,
    /// Bytes to come, if the client declared them.
    left: Option<u64>,
}

impl Body for PassedBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let piece = std::task::ready!(self.pieces.poll_recv(context));
        if let (Some(left), Some(Ok(piece))) = (&mut self.left, &piece) {
            *left = left.saturating_sub(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Returns the body of a request, if it has one, as it arrives, and the place where the reason stands if it breaks off.
fn passed_body(
    request: &HttpRequest,
    payload: Payload,
    patience: &BodyTimeouts,
) -> Option<(reqwest::Body, Rc<Cell<Option<Broken>>>)> {
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if declared.unwrap_or(0) == 0 && !request.headers().contains_key(header::TRANSFER_ENCODING) {
        return None;
    }
    let (sender, pieces) = mpsc::channel(PIECES);
    let broken: Rc<Cell<Option<Broken>>> = Rc::default();
    actix_web::rt::spawn(pump(payload, sender, BodyClock::streamed(patience), Rc::clone(&broken)));
    Some((reqwest::Body::wrap(PassedBody { pieces, left: declared }), broken))
}

/// Hands a body on until it ends, breaks off, or the instance takes no more of it.
async fn pump(
    mut payload: Payload,
    pieces: mpsc::Sender<Result<Bytes, Broken>>,
    mut pace: BodyClock,
    broken: Rc<Cell<Option<Broken>>>,
) {
    let why = loop {
        let piece = match pace.next(&mut payload).await {
            Ok(Some(Ok(piece))) => piece,
            Ok(Some(Err(_))) => break Broken::CutShort,
            Ok(None) => return,
            Err(_) => break Broken::TooSlow,
        };
        let handed = Instant::now();
        if pieces.send(Ok(piece)).await.is_err() {
            return;
        }
        pace.exclude(handed.elapsed());
    };
    broken.set(Some(why));
    // So that the instance does not take what came for the whole.
    let _ = pieces.send(Err(why)).await;
}

async fn forward(
    request: &HttpRequest,
    payload: Payload,
    address: std::net::SocketAddr,
    client: &reqwest::Client,
    patience: &BodyTimeouts,
) -> HttpResponse {
    let tail = request.match_info().get("tail").filter(|tail| !tail.is_empty()).unwrap_or("/");
    let query = request.query_string();
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    let Ok(method) = reqwest::Method::from_bytes(request.method().as_str().as_bytes()) else {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", "unknown method");
    };
    let mut passed = client.request(method, format!("http://{address}{tail}{query}"));
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
    // Piece by piece, as the instance makes them; an answer that breaks off there breaks off here.
    let pieces = stream::try_unfold(answer, |mut answer| async move {
        let piece = answer.chunk().await.map_err(std::io::Error::other)?;
        Ok::<_, std::io::Error>(piece.map(|piece| (piece, answer)))
    });
    response.streaming(pieces.boxed_local())
}

#[cfg(test)]
mod tests {
    use super::{is_end_to_end, nominated_headers};

    #[test]
    fn headers_that_the_connection_nominates_are_not_passed_on() {
        let sent: [&[u8]; 2] = [b"close, X-Trace", b"  Keep-Alive ,authorization,"];
        let nominated = nominated_headers(sent.into_iter());
        for name in ["x-trace", "close", "connection", "transfer-encoding", "keep-alive"] {
            assert!(!is_end_to_end(name, &nominated), "{name}");
        }
        for name in ["content-type", "x-request-id", "authorization"] {
            assert!(is_end_to_end(name, &nominated), "{name}");
        }
    }
}
