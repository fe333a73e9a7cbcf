//! A reverse proxy that serves deployments through the server's own listener. Requests below `…/sql/` and their
//! responses pass unchanged and streamed; the instance enforces its own limits on bodies. Responses that the proxy
//! generates have the format that SQL clients know, not that of the API.

mod admission;
mod body;
mod forward;
mod headers;
mod refusals;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse, web};
use branchyard_auth::HashedToken;
use branchyard_http_common::{AppState, Guesses, HostedAddresses, RequestId, path_segment};

use crate::admission::{Refused, admit, token};
use crate::forward::forward;
use crate::refusals::{preflight, refuse, unauthenticated, unavailable};

/// Maximum number of rejected credentials per address and second; an instance has the same limit.
const REJECTED: u32 = 10;
const REQUEST_ID: &str = "x-request-id";
/// Idle time of a pooled connection. Shorter than the instance's own, because a streamed body cannot be sent again on a
/// new connection.
const IDLE: Duration = Duration::from_secs(30);
/// Time limit for connecting to an instance on this machine.
const CONNECT: Duration = Duration::from_secs(5);

/// The proxy of a server. Created once and mounted in every worker.
#[derive(Clone)]
pub struct DeploymentProxy {
    /// One HTTP client per worker, because a connection belongs to the runtime that opened it.
    clients: Arc<[reqwest::Client]>,
    /// The number of times that the proxy was mounted.
    mounted: Arc<AtomicUsize>,
    /// Counts of rejected credentials, shared by all workers.
    guesses: Data<Guesses>,
}

impl DeploymentProxy {
    /// Creates the proxy of a server with this number of workers.
    ///
    /// # Errors
    /// Returns an error if the HTTP clients cannot be created, for example because there is no source of randomness.
    pub fn new(workers: usize) -> reqwest::Result<Self> {
        let clients = (0..workers.max(1)).map(|_| client()).collect::<Result<_, _>>()?;
        Ok(Self { clients, mounted: Arc::default(), guesses: Data::new(Guesses::new(REJECTED, 1)) })
    }

    /// Mounts the proxy. It has to be mounted before the API, whose scope would match these paths too.
    pub fn configure(&self, config: &mut web::ServiceConfig) {
        let path = format!("{}/deployments/{{owner}}/{{deployment}}/sql{{tail:(?:/.*)?}}", HostedAddresses::BASE);
        // A worker that replaces a failed one shares the client of another worker.
        let turn = self.mounted.fetch_add(1, Ordering::Relaxed) % self.clients.len();
        let client = Data::new(self.clients[turn].clone());
        config.service(web::resource(path).app_data(client).app_data(self.guesses.clone()).to(pass));
    }
}

fn client() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder().connect_timeout(CONNECT).pool_idle_timeout(IDLE).no_proxy().build()
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
    // Checked before any look-up, so that guessing costs the server nothing once an address has used up its quota.
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
        Ok(Err(Refused::Port(fault))) => {
            tracing::error!(error = &fault as &dyn std::error::Error, "the gateway cannot read the metadata store");
            return unavailable("the server cannot do this just now; try again");
        }
        Err(_) => return unavailable("the server is busy"),
    };
    forward(request, payload, address, client, &state.config.patience).await
}
