//! The calls between this node and the others of its cluster: which node leads a database, and what other nodes ask this one to do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::middleware::from_fn;
use actix_web::web::{Bytes, Data, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, web};
use anyhow::Context as _;
use branchyard_domain::Hub;
use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_engine_durable::Leaders;
use branchyard_http_common::{ApiError, HandlerError, RequestContext, RequestPolicy, layer};
use branchyard_node_calls::{CallOptions, LeaderNode, NodeCalls, NodeClient, PREFIX, WritePlace, WritePlaces, admit};
use branchyard_problem_details::{ErrorCode, Problem};
use branchyard_segments::RecordsError;
use branchyard_storage::LiveNode;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;

use crate::compose::Stores;
use crate::config::Config;
use crate::durable_home::DurableHome;

/// The path of a fetch, below [`PREFIX`].
const FETCH: &str = "/fetch";
/// Time beyond the length of a lease within which another node leads what a lost one led.
const TAKEOVER: Duration = Duration::from_secs(5);

/// Finds the leaders of databases in the metadata store.
struct Places {
    home: DurableHome,
    node: String,
}

impl WritePlaces for Places {
    fn place(&self, database: DatabaseId) -> Result<WritePlace, EngineError> {
        if self.home.is_leading(database) {
            return Ok(WritePlace::Here);
        }
        match self.home.leader(database).map_err(of_records)? {
            Some(leader) if leader.id != self.node => return Ok(at(leader)),
            Some(_) => {}
            None if self.home.is_drained() => {
                let successors = self.home.successors().map_err(of_records)?;
                // All nodes choose the same one, as long as they see the same nodes.
                let chosen = successors.into_iter().max_by_key(|node| rank(node, database));
                // What no other node can do is done here.
                if let Some(chosen) = chosen {
                    return Ok(at(chosen));
                }
            }
            None => {}
        }
        self.home.take_lead(database).map(|()| WritePlace::Here)
    }
}

fn at(node: LiveNode) -> WritePlace {
    WritePlace::At(LeaderNode { id: node.id, address: node.address })
}

fn rank(node: &LiveNode, database: DatabaseId) -> [u8; 32] {
    Sha256::digest(format!("{} {database}", node.id)).into()
}

fn of_records(error: RecordsError) -> EngineError {
    EngineError::Unavailable(error.to_string())
}

/// A fetch that one node asks of another.
#[derive(Debug, Serialize, Deserialize)]
struct FetchCall {
    into: String,
    from: String,
    commit: String,
}

/// Asks the nodes that lead databases.
struct AskedLeaders {
    calls: Data<NodeCalls>,
    hub: Hub,
}

impl Leaders for AskedLeaders {
    fn fetch(&self, into: DatabaseId, from: DatabaseId, commit: &CommitHash) -> Result<bool, EngineError> {
        let fetch = FetchCall { into: into.to_string(), from: from.to_string(), commit: commit.to_string() };
        let body = serde_json::to_string(&fetch).map_err(|error| EngineError::Unavailable(error.to_string()))?;
        let id = format!("req_{}", self.hub.fresh_id().hyphenated());
        let Some(answer) = self.calls.ask(into, FETCH, &id, body)? else { return Ok(false) };
        match answer.status {
            204 => Ok(true),
            404 => Err(EngineError::NoSuchCommit(commit.clone())),
            status => {
                Err(EngineError::Unavailable(format!("the node that leads the database answered {status} to {id}")))
            }
        }
    }
}

/// Creates the calls of a node, and saves the address at which others call it. Returns `None` unless this is a node of a cluster whose
/// nodes share a master key.
///
/// # Errors
/// Fails if a certificate cannot be used, or if the metadata store does not answer.
pub(crate) fn start(
    config: &Config,
    stores: &Stores,
    scheme: &str,
    listens_on: SocketAddr,
    runtime: &Handle,
) -> anyhow::Result<Option<Data<NodeCalls>>> {
    let (Some(home), Some(ring)) = (&stores.home, stores.keys.ring().shared()) else { return Ok(None) };
    let Some(node) = home.node_id() else { return Ok(None) };
    match advertised(config, scheme, listens_on) {
        Some(address) => home.set_address(&address).context("cannot save the address of this node")?,
        None => tracing::warn!(
            %listens_on,
            "other nodes cannot call this one: set cluster.advertise to the origin at which they reach it"
        ),
    }
    let roots = match &config.tls.cert {
        None => Vec::new(),
        Some(path) => {
            let pem = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            reqwest::Certificate::from_pem_bundle(&pem).context("configuration: tls.cert")?
        }
    };
    let options = CallOptions {
        node: node.clone(),
        key: ring.master().calls().clone(),
        roots,
        runtime: runtime.clone(),
        hub: stores.hub.clone(),
    };
    let client = NodeClient::new(options).context("cannot build the HTTP client for other nodes")?;
    let places = Arc::new(Places { home: home.clone(), node });
    let patience = config.cluster.lease.duration() + TAKEOVER;
    let calls = Data::new(NodeCalls::new(client, places, stores.dir.pushed_chunks(), patience));
    home.ask_leaders(Arc::new(AskedLeaders { calls: calls.clone(), hub: stores.hub.clone() }));
    Ok(Some(calls))
}

/// Returns the origin at which other nodes reach this one.
fn advertised(config: &Config, scheme: &str, listens_on: SocketAddr) -> Option<String> {
    let derived = || (!listens_on.ip().is_unspecified()).then(|| format!("{scheme}://{listens_on}"));
    config.cluster.advertise.clone().or_else(derived)
}

/// Mounts what other nodes call. It has to come before the pages, which accept every path.
pub(crate) fn configure(config: &mut ServiceConfig, calls: Option<&Data<NodeCalls>>, home: Option<&DurableHome>) {
    if let Some(calls) = calls {
        config.app_data(calls.clone());
    }
    let mut scope = web::scope(PREFIX).configure(branchyard_api_remotes::configure_calls);
    if let Some(home) = home {
        let fetch = web::resource(FETCH).app_data(Data::new(home.clone()));
        let policy = RequestPolicy { is_counted: false, ..RequestPolicy::default() };
        scope = scope.service(fetch.app_data(policy).route(web::post().to(fetch_here)));
    }
    config.service(scope.wrap(from_fn(admit)).wrap(from_fn(layer)));
}

/// Fetches a commit into a database that this node leads.
async fn fetch_here(
    request: HttpRequest,
    (home, calls): (Data<DurableHome>, Data<NodeCalls>),
    body: Bytes,
) -> Result<HttpResponse, HandlerError> {
    let call = RequestContext::without_body(&request).await?;
    let malformed = || Problem::new(ErrorCode::ValidationFailed, "the call does not name two databases and a commit");
    let fetch: FetchCall = serde_json::from_slice(&body).map_err(|_| malformed())?;
    let into = DatabaseId::parse(&fetch.into).map_err(|_| malformed())?;
    let from = DatabaseId::parse(&fetch.from).map_err(|_| malformed())?;
    let commit = CommitHash::parse(&fetch.commit).map_err(|_| malformed())?;
    let fetched = call
        .run(&call.state.uploads, move |_| {
            Ok::<_, ApiError>(match calls.leads(into) {
                Ok(true) => Some(home.fetch_here(into, from, &commit)),
                Ok(false) | Err(_) => None,
            })
        })
        .await?;
    match fetched {
        None => Ok(HttpResponse::new(StatusCode::MISDIRECTED_REQUEST)),
        Some(Ok(())) => Ok(HttpResponse::NoContent().finish()),
        Some(Err(EngineError::NoSuchCommit(_))) => Err(HandlerError::not_found("the source does not have the commit")),
        Some(Err(error)) => {
            tracing::warn!(%error, "cannot fetch a commit for another node");
            Err(Problem::new(ErrorCode::ServiceUnavailable, "the commit cannot be fetched just now").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_the_setting_or_that_of_the_listener() {
        let on = |address: &str| address.parse().unwrap();
        let mut config = Config::default();
        let derived = advertised(&config, "https", on("127.0.0.1:8443"));
        assert_eq!(derived.as_deref(), Some("https://127.0.0.1:8443"));
        assert_eq!(advertised(&config, "http", on("0.0.0.0:8080")), None);
        assert_eq!(advertised(&config, "http", on("[::]:8080")), None);
        config.cluster.advertise = Some("http://yard-1:8080".to_owned());
        assert_eq!(advertised(&config, "http", on("0.0.0.0:8080")).as_deref(), Some("http://yard-1:8080"));
    }
}
