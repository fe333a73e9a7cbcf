//! A reverse proxy that serves deployments through the server's own listener. Requests below `…/sql/` and their
//! responses pass unchanged and streamed; the instance enforces its own limits on bodies. Responses that the proxy
//! generates have the format that SQL clients know, not that of the API.

mod admission;
mod body;
mod forward;
mod headers;
mod in_progress;
mod refusals;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse, web};
use branchyard_http_common::{AppState, HostedAddresses, RequestId};

use crate::admission::Admission;
use crate::forward::forward;
use crate::refusals::preflight;

const REQUEST_ID: &str = "x-request-id";
/// Idle time of a pooled connection. Shorter than the instance's own, because a streamed body cannot be sent again on a
/// new connection.
const IDLE: Duration = Duration::from_secs(30);
/// Time limit for connecting to an instance on this machine.
const CONNECT: Duration = Duration::from_secs(5);
/// Maximum time in which an instance may send nothing. A request arrives within 5 minutes, a step of a cursor takes at most 50
/// (`listener_read_timeout_millis` and ten times `query_timeout_millis` at their maximum). An instance that hangs is killed by
/// its supervisor long before; this limit ends the requests to one that answers its supervisor only.
const SILENCE: Duration = Duration::from_secs(3_600);
/// Maximum number of idle connections of all workers to one instance. A worker may keep one in any case.
const IDLE_CONNECTIONS: usize = 32;

/// The proxy of a server. Created once and mounted in every worker.
#[derive(Clone)]
pub struct DeploymentProxy {
    /// One HTTP client per worker, because a connection belongs to the runtime that opened it.
    clients: Arc<[reqwest::Client]>,
    /// The number of times that the proxy was mounted.
    mounted: Arc<AtomicUsize>,
    admission: Data<Admission>,
}

impl DeploymentProxy {
    /// Creates the proxy of a server with this number of workers.
    ///
    /// # Errors
    /// Returns an error if the HTTP clients cannot be created, for example because there is no source of randomness.
    pub fn new(workers: usize) -> reqwest::Result<Self> {
        let workers = workers.max(1);
        let idle = (IDLE_CONNECTIONS / workers).max(1);
        let clients = (0..workers).map(|_| client(SILENCE, idle)).collect::<Result<_, _>>()?;
        Ok(Self { clients, mounted: Arc::default(), admission: Data::new(Admission::default()) })
    }

    /// Mounts the proxy. It has to be mounted before the API, whose scope would match these paths too.
    pub fn configure(&self, config: &mut web::ServiceConfig) {
        let path = format!("{}/deployments/{{owner}}/{{deployment}}/sql{{tail:(?:/.*)?}}", HostedAddresses::BASE);
        // A worker that replaces a failed one shares the client of another worker.
        let turn = self.mounted.fetch_add(1, Ordering::Relaxed) % self.clients.len();
        let client = Data::new(self.clients[turn].clone());
        config.service(web::resource(path).app_data(client).app_data(self.admission.clone()).to(pass));
    }
}

/// Creates the HTTP client of a worker, which keeps `idle` unused connections to an instance.
fn client(silence: Duration, idle: usize) -> reqwest::Result<reqwest::Client> {
    let client = reqwest::Client::builder().connect_timeout(CONNECT).read_timeout(silence);
    // A redirection is the client's to follow: the server would follow it to addresses that the client may not reach.
    let client = client.redirect(reqwest::redirect::Policy::none());
    client.pool_idle_timeout(IDLE).pool_max_idle_per_host(idle).no_proxy().build()
}

async fn pass(
    request: HttpRequest,
    payload: Payload,
    state: Data<AppState>,
    admission: Data<Admission>,
    client: Data<reqwest::Client>,
) -> HttpResponse {
    let mut response = match preflight(&request) {
        Some(response) => response,
        None => match admission.admit(&request, &state).await {
            Ok(admitted) => forward(&request, payload, admitted, &client, &state.config.patience).await,
            Err(refused) => refused,
        },
    };
    if !response.headers().contains_key(REQUEST_ID) {
        let id = RequestId::of_request(&request, &state.services);
        if let Ok(id) = HeaderValue::from_str(id.as_str()) {
            response.headers_mut().insert(HeaderName::from_static(REQUEST_ID), id);
        }
    }
    response
}
