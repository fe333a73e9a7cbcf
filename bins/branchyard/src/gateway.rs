//! Deployments through the server's own listener: requests below `…/sql/` go to the instance as they are, and its answers come
//! back as they are. Answers of the gateway's own have the shape that clients of SQL know, not that of the API.

use std::time::Duration;

use actix_web::http::{StatusCode, header};
use actix_web::web::{Bytes, Data, Payload};
use actix_web::{HttpRequest, HttpResponse, web};
use branchyard_api_common::{AppState, path_segment};
use branchyard_auth::PlainToken;
use branchyard_domain::Hub;
use branchyard_domain::access::{Caller, Observe};
use branchyard_domain::errors::{DeploymentError, Fault};
use futures_util::{StreamExt as _, stream};

/// Bytes of a request at most: the most a deployment can be set to take.
const MAX_REQUEST: usize = 64 << 20;
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

/// Mounts the gateway; before the API, whose scope would answer for these paths.
pub(crate) fn configure(config: &mut web::ServiceConfig) {
    // A client of its own for each worker: connections belong to the worker's runtime.
    let client = reqwest::Client::builder().connect_timeout(CONNECT).no_proxy().build();
    let path = format!("{}/deployments/{{owner}}/{{deployment}}/sql{{tail:(?:/.*)?}}", branchyard_api_hosted_v1::BASE);
    if let Ok(client) = client {
        config.service(web::resource(path).app_data(Data::new(client)).to(pass));
    }
}

/// An answer of the gateway's own.
fn refuse(status: StatusCode, code: &str, message: &str) -> HttpResponse {
    let mut response = HttpResponse::build(status);
    if status == StatusCode::UNAUTHORIZED {
        response.insert_header((header::WWW_AUTHENTICATE, "Bearer realm=\"branchyard\""));
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
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

/// Why a request is not passed on.
enum Refused {
    NoToken,
    NoDeployment(String),
    NotStarted(String),
    Fault(Fault),
}

fn admit(hub: &Hub, token: Option<PlainToken>, owner: &str, name: &str) -> Result<std::net::SocketAddr, Refused> {
    let token = token.ok_or(Refused::NoToken)?;
    let user = match hub.tokens().check(&token.hash()) {
        Ok(found) => found.map(|(_, user)| user).ok_or(Refused::NoToken)?,
        Err(fault) => return Err(Refused::Fault(fault)),
    };
    let refused = |error: DeploymentError| match error {
        DeploymentError::Fault(fault) => Refused::Fault(fault),
        DeploymentError::Conflict(text) => Refused::NotStarted(text),
        other => Refused::NoDeployment(other.to_string()),
    };
    let caller = Caller::User(user);
    let access = hub.deployments().access::<Observe>(&caller, owner, name).map_err(refused)?;
    hub.deployments().address(&access).map_err(refused)
}

async fn pass(
    request: HttpRequest,
    payload: Payload,
    state: Data<AppState>,
    client: Data<reqwest::Client>,
) -> HttpResponse {
    let (owner, name) = (path_segment(&request, "owner"), path_segment(&request, "deployment"));
    let (hub, token) = (state.hub.clone(), token(&request));
    let address = match web::block(move || admit(&hub, token, &owner, &name)).await {
        Ok(Ok(address)) => address,
        Ok(Err(Refused::NoToken)) => {
            return refuse(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", "this needs a live token");
        }
        Ok(Err(Refused::NoDeployment(text))) => return refuse(StatusCode::NOT_FOUND, "NOT_FOUND", &text),
        Ok(Err(Refused::NotStarted(text))) => return unavailable(&text),
        Ok(Err(Refused::Fault(fault))) => {
            tracing::error!(error = &fault as &dyn std::error::Error, "the gateway could not ask the store");
            return unavailable("the server cannot do this just now; try again");
        }
        Err(_) => return unavailable("the server is busy"),
    };
    forward(&request, payload, address, &client).await
}

async fn forward(
    request: &HttpRequest,
    payload: Payload,
    address: std::net::SocketAddr,
    client: &reqwest::Client,
) -> HttpResponse {
    let body = match payload.to_bytes_limited(MAX_REQUEST).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return refuse(StatusCode::BAD_REQUEST, "PROTOCOL_ERROR", "the body was cut short"),
        Err(_) => return refuse(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", "the body is too large"),
    };
    let tail = request.match_info().get("tail").filter(|tail| !tail.is_empty()).unwrap_or("/");
    let query = request.query_string();
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    let Ok(method) = reqwest::Method::from_bytes(request.method().as_str().as_bytes()) else {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", "unknown method");
    };
    let mut passed = client.request(method, format!("http://{address}{tail}{query}"));
    for (name, value) in request.headers() {
        if !HOP_BY_HOP.contains(&name.as_str()) {
            passed = passed.header(name.as_str(), value.as_bytes());
        }
    }
    let answer = match passed.body(body.to_vec()).send().await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::debug!(%error, "an instance did not answer");
            return unavailable("the instance does not answer just now; try again");
        }
    };
    let status = StatusCode::from_u16(answer.status().as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = HttpResponse::build(status);
    for (name, value) in answer.headers() {
        if !HOP_BY_HOP.contains(&name.as_str()) {
            response.append_header((name.as_str(), value.as_bytes()));
        }
    }
    // Piece by piece, as the instance makes them; an answer that breaks off there breaks off here.
    let pieces = stream::try_unfold(answer, |mut answer| async move {
        let piece = answer.chunk().await.map_err(std::io::Error::other)?;
        Ok::<_, std::io::Error>(piece.map(|piece| (Bytes::from(piece.to_vec()), answer)))
    });
    response.streaming(pieces.boxed_local())
}
