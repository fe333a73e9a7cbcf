//! The side of a call that makes it.

use std::net::IpAddr;
use std::time::Duration;

use branchyard_domain::Hub;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, RETRY_AFTER, USER_AGENT};
use reqwest::{Certificate, Client, Method, Url, redirect};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::key::CallKey;
use crate::places::LeaderNode;
use crate::spooled::SpooledBody;
use crate::statement::{CoveredRequest, HEADER, Statement};

/// Time limit for connecting to a node.
const CONNECT: Duration = Duration::from_secs(2);
/// Idle time of a pooled connection.
const IDLE: Duration = Duration::from_secs(30);
/// Length of the longest answer, in bytes.
const MOST_ANSWER: usize = 1 << 20;
/// The header with the id of the request.
const REQUEST_ID: &str = "x-request-id";

/// What a [`NodeClient`] needs.
pub struct CallOptions {
    /// The id of this node.
    pub node: String,
    /// The key of the cluster.
    pub key: CallKey,
    /// Certificates that are trusted besides those of the system: those of the nodes themselves.
    pub roots: Vec<Certificate>,
    /// The runtime on which connections are kept.
    pub runtime: Handle,
    /// The source of the time and of nonces.
    pub hub: Hub,
}

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Other nodes do not know how to reach the node.
    #[error("the node '{0}' has no address; set cluster.advertise on it")]
    NoAddress(String),
    /// The address of the node is no URL.
    #[error("the address of the node '{node}' is no URL: {address}")]
    Address {
        /// The node.
        node: String,
        /// Its address.
        address: String,
    },
    /// The body cannot be read.
    #[error("cannot read the body again")]
    Body(#[from] std::io::Error),
    /// The node cannot be reached, or its answer broke off.
    #[error(transparent)]
    Transport(#[from] reqwest::Error),
    /// The answer is longer than the receiver takes.
    #[error("the answer is longer than {MOST_ANSWER} bytes")]
    TooLong,
    /// The call was ended.
    #[error("the call was ended")]
    Ended,
}

/// What one node asks of another.
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) request_id: String,
    /// The address of the client.
    pub(crate) caller: Option<IpAddr>,
    /// The value of the client's `Authorization`.
    pub(crate) credential: Option<Vec<u8>>,
    /// The value of the client's `User-Agent`.
    pub(crate) user_agent: Option<Vec<u8>>,
}

/// The answer to a call.
#[derive(Debug)]
pub struct Sent {
    /// The status.
    pub status: u16,
    /// The value of `Content-Type`.
    pub content_type: Option<String>,
    /// The value of `Retry-After`.
    pub retry_after: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// Makes calls.
pub struct NodeClient {
    http: Client,
    options: CallOptions,
}

/// Ends a task with the call that waits for it.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl NodeClient {
    /// Creates a client.
    ///
    /// # Errors
    /// Fails if there is no source of randomness, or no trusted certificate.
    pub fn new(options: CallOptions) -> reqwest::Result<Self> {
        let http = Client::builder()
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .redirect(redirect::Policy::none())
            .referer(false)
            .no_proxy()
            .http1_only()
            .tls_certs_merge(options.roots.iter().cloned())
            .build()?;
        Ok(Self { http, options })
    }

    pub(crate) fn key(&self) -> &CallKey {
        &self.options.key
    }

    /// Returns the runtime on which connections are kept.
    pub fn runtime(&self) -> &Handle {
        &self.options.runtime
    }

    /// Makes a call. It ends when the returned future is dropped.
    pub(crate) async fn call(&self, to: &LeaderNode, call: &Call, body: &SpooledBody) -> Result<Sent, CallError> {
        let address = to.address.as_deref().ok_or_else(|| CallError::NoAddress(to.id.clone()))?;
        let url = Url::parse(address).and_then(|url| url.join(&call.target));
        let url = url.map_err(|_| CallError::Address { node: to.id.clone(), address: address.to_owned() })?;
        let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
        let covered = CoveredRequest {
            method: call.method.as_str(),
            target: &format!("{}{query}", url.path()),
            request_id: &call.request_id,
            credential: call.credential.as_deref(),
        };
        let hub = &self.options.hub;
        let statement = Statement {
            node: self.options.node.clone(),
            at: hub.now().as_seconds(),
            nonce: *hub.fresh_id().as_bytes(),
            body: body.hash(),
            caller: call.caller,
        };
        let mut request = self
            .http
            .request(call.method.clone(), url.clone())
            .header(HEADER, statement.sign(&self.options.key, covered))
            .header(REQUEST_ID, &call.request_id)
            .header(CONTENT_TYPE, "application/octet-stream")
            .body(body.to_send()?);
        for (name, value) in [(AUTHORIZATION, &call.credential), (USER_AGENT, &call.user_agent)] {
            if let Some(value) = value {
                request = request.header(name, value.as_slice());
            }
        }
        let mut task = Task(self.options.runtime.spawn(answered(request)));
        (&mut task.0).await.unwrap_or(Err(CallError::Ended))
    }
}

async fn answered(request: reqwest::RequestBuilder) -> Result<Sent, CallError> {
    let mut answer = request.send().await?;
    let text = |headers: &HeaderMap, name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (content_type, retry_after) = (text(answer.headers(), CONTENT_TYPE), text(answer.headers(), RETRY_AFTER));
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await? {
        if body.len() + piece.len() > MOST_ANSWER {
            return Err(CallError::TooLong);
        }
        body.extend_from_slice(&piece);
    }
    Ok(Sent { status: answer.status().as_u16(), content_type, retry_after, body })
}
