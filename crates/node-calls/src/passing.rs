//! Passing requests on to the nodes that lead their databases.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::http::StatusCode;
use actix_web::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER, USER_AGENT};
use actix_web::{FromRequest as _, HttpMessage as _, HttpRequest, HttpResponse, web};
use branchyard_domain::errors::PortError;
use branchyard_domain::ports::EngineError;
use branchyard_domain::values::DatabaseId;
use branchyard_http_common::{ApiError, HandlerError, OwnShape, Pumped, RequestContext, upload_channel};
use branchyard_problem_details::{ErrorCode, Problem};
use parking_lot::Mutex;
use reqwest::Method;

use crate::PREFIX;
use crate::admission::IsCall;
use crate::client::{Call, CallError, NodeClient, Sent};
use crate::key::CallKey;
use crate::nonces::{Nonce, NonceUse, UsedNonces};
use crate::places::{LeaderNode, WritePlace, WritePlaces};
use crate::spooled::{SpoolError, SpooledBody};

/// Time between two looks for the node that leads a database.
const LOOK: Duration = Duration::from_millis(250);
/// Time between two looks while a node answers nothing.
const LOOK_WHILE_SILENT: Duration = Duration::from_secs(1);

/// The calls of this node to others, and theirs to it.
pub struct NodeCalls {
    client: NodeClient,
    places: Arc<dyn WritePlaces>,
    nonces: Mutex<UsedNonces>,
    /// The folder of bodies.
    spool: PathBuf,
    /// How long another node is waited for.
    patience: Duration,
}

/// What became of a request.
pub enum Passed {
    /// This node is to serve it. It has this body.
    Here(web::Payload),
    /// Another node has answered it.
    Answered(HttpResponse),
}

/// How a call ended.
enum Ended {
    Answered(Sent),
    /// The node does not lead the database any more, or cannot be reached.
    Moved(String),
}

impl NodeCalls {
    /// Creates the calls of a node. `spool` is the folder in which bodies are kept that wait for another node, and `patience` is how
    /// long that is: until another node leads the databases of one that was lost.
    pub fn new(client: NodeClient, places: Arc<dyn WritePlaces>, spool: PathBuf, patience: Duration) -> Self {
        Self { client, places, nonces: Mutex::default(), spool, patience }
    }

    pub(crate) fn key(&self) -> &CallKey {
        self.client.key()
    }

    pub(crate) fn note(&self, nonce: Nonce, at: i64, now: i64) -> NonceUse {
        self.nonces.lock().note(nonce, at, now)
    }

    /// Returns `true` if this node leads a database, now if no node did. Blocks.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] if that cannot be found out just now.
    pub fn leads(&self, database: DatabaseId) -> Result<bool, EngineError> {
        Ok(self.places.place(database)? == WritePlace::Here)
    }

    /// Returns the calls of this node, if it makes any.
    pub fn of(request: &HttpRequest) -> Option<web::Data<Self>> {
        request.app_data::<web::Data<Self>>().cloned()
    }

    /// Passes a request on to the node that leads a database, unless that is this one. If that node is lost meanwhile, waits for its
    /// successor. `longest` is the length of the longest body, in bytes.
    ///
    /// # Errors
    /// 400 if the body breaks off or is too slow, 413 if it is too long, 503 if the node does not answer in time; 421 if another node has
    /// passed the request on to this one, which does not lead the database any more.
    pub async fn pass(
        &self,
        request: &HttpRequest,
        call: &RequestContext,
        database: DatabaseId,
        body: web::Payload,
        longest: u64,
    ) -> Result<Passed, HandlerError> {
        let is_call = request.extensions().contains::<IsCall>();
        match self.place(call, database).await {
            Ok(WritePlace::Here) => return Ok(Passed::Here(body)),
            // The other node looks again, and waits if it has to.
            _ if is_call => return Ok(Passed::Answered(HttpResponse::new(StatusCode::MISDIRECTED_REQUEST))),
            _ => {}
        }
        let body = self.receive(call, body, longest).await?;
        let until = Instant::now() + self.patience;
        let passed = passed_call(request, call);
        loop {
            let why = match self.place(call, database).await {
                Ok(WritePlace::Here) => return here(request, body).await,
                Ok(WritePlace::At(node)) => match self.send(&node, &passed, call, database, &body).await {
                    Ended::Answered(sent) => return Ok(Passed::Answered(response(sent))),
                    Ended::Moved(why) => why,
                },
                Err(error) => error.to_string(),
            };
            if Instant::now() >= until {
                tracing::warn!(why, "the node that leads a database could not be reached");
                let detail = "the node that writes this database does not answer; try again";
                return Err(Problem::new(ErrorCode::ServiceUnavailable, detail).retry_after(1).into());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn place(&self, call: &RequestContext, database: DatabaseId) -> Result<WritePlace, EngineError> {
        let places = Arc::clone(&self.places);
        let looked = call.run(&call.state.reads, move |_| Ok::<_, ApiError>(places.place(database)));
        looked.await.unwrap_or_else(|error| Err(EngineError::Unavailable(error.to_string())))
    }

    /// Keeps the body of a request: it may have to be sent twice.
    async fn receive(
        &self,
        call: &RequestContext,
        body: web::Payload,
        longest: u64,
    ) -> Result<SpooledBody, HandlerError> {
        let (body, mut reader) = upload_channel(body);
        let folder = self.spool.clone();
        let kept = call.spawn(&call.state.uploads, move |hub| {
            let spooled = match hub.is_storage_low() {
                true => Err(ApiError::from(PortError::StorageLow)),
                false => SpooledBody::read(&mut reader, longest, &folder).map_err(|error| refusal(error, longest)),
            };
            if spooled.is_err() {
                // The client reads no answer before it has sent all.
                let rest = std::io::Read::take(&mut reader, longest + (1 << 20));
                drop(std::io::copy(&mut { rest }, &mut std::io::sink()));
            }
            spooled
        });
        let pumped = body.pump(&call.state.config.patience).await;
        let kept = kept.await.unwrap_or_else(|_| Err(Problem::internal().into()));
        if pumped == Pumped::TooSlow {
            return Err(Problem::new(ErrorCode::ValidationFailed, "the body came too slowly").into());
        }
        kept
    }

    /// Makes a call, and gives it up if the node does not lead the database any more.
    async fn send(
        &self,
        node: &LeaderNode,
        passed: &Call,
        call: &RequestContext,
        database: DatabaseId,
        body: &SpooledBody,
    ) -> Ended {
        let look = async || self.place(call, database).await.ok();
        unless_moved(node, self.client.call(node, passed, body), look).await
    }

    /// Has the node that leads a database do what a call asks, on a thread that may wait. Returns `None` if this node is to do it.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] if the node does not answer in time.
    pub fn ask(
        &self,
        database: DatabaseId,
        target: &str,
        request_id: &str,
        body: String,
    ) -> Result<Option<Sent>, EngineError> {
        let call = Call {
            method: Method::POST,
            target: format!("{PREFIX}{target}"),
            request_id: request_id.to_owned(),
            caller: None,
            credential: None,
            user_agent: None,
        };
        let (body, until) = (SpooledBody::of(body), Instant::now() + self.patience);
        loop {
            let node = match self.places.place(database)? {
                WritePlace::Here => return Ok(None),
                WritePlace::At(node) => node,
            };
            let runtime = self.client.runtime();
            let look = async || {
                let places = Arc::clone(&self.places);
                runtime.spawn_blocking(move || places.place(database)).await.ok()?.ok()
            };
            let sent = runtime.block_on(unless_moved(&node, self.client.call(&node, &call, &body), look));
            match sent {
                Ended::Answered(sent) => return Ok(Some(sent)),
                Ended::Moved(why) if Instant::now() >= until => {
                    return Err(EngineError::Unavailable(format!("the node that leads the database: {why}")));
                }
                Ended::Moved(_) => std::thread::sleep(LOOK),
            }
        }
    }
}

/// Waits for the answer of a node, and gives it up if the node does not lead the database any more. `look` returns the place at which
/// the database is changed, or `None` if that cannot be found out: then it may not have changed.
async fn unless_moved(
    node: &LeaderNode,
    sending: impl Future<Output = Result<Sent, CallError>>,
    look: impl AsyncFn() -> Option<WritePlace>,
) -> Ended {
    let asked = WritePlace::At(node.clone());
    tokio::pin!(sending);
    loop {
        tokio::select! {
            ended = &mut sending => return ended_call(ended),
            () = tokio::time::sleep(LOOK_WHILE_SILENT) => {}
        }
        if look().await.is_some_and(|place| place != asked) {
            return Ended::Moved(format!("the node '{}' does not lead the database any more", node.id));
        }
    }
}

fn ended_call(ended: Result<Sent, CallError>) -> Ended {
    match ended {
        Ok(sent) if sent.status == StatusCode::MISDIRECTED_REQUEST.as_u16() => {
            Ended::Moved("it has just passed the lead on".to_owned())
        }
        Ok(sent) => Ended::Answered(sent),
        Err(error) => Ended::Moved(error.to_string()),
    }
}

async fn here(request: &HttpRequest, body: SpooledBody) -> Result<Passed, HandlerError> {
    let mut payload = body.into_payload().map_err(|error| {
        tracing::error!(%error, "cannot read a body again that was kept");
        Problem::internal()
    })?;
    let payload = web::Payload::from_request(request, &mut payload).await.map_err(|_| Problem::internal())?;
    Ok(Passed::Here(payload))
}

fn passed_call(request: &HttpRequest, call: &RequestContext) -> Call {
    let target = request.uri().path_and_query().map_or_else(|| request.path(), |target| target.as_str());
    let header = |name: HeaderName| request.headers().get(name).map(|value| value.as_bytes().to_vec());
    Call {
        method: Method::from_bytes(request.method().as_str().as_bytes()).unwrap_or(Method::POST),
        target: format!("{PREFIX}{target}"),
        request_id: call.id().as_str().to_owned(),
        caller: call.state.client_address(request),
        credential: header(AUTHORIZATION),
        user_agent: header(USER_AGENT),
    }
}

fn response(sent: Sent) -> HttpResponse {
    let status = StatusCode::from_u16(sent.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = HttpResponse::build(status);
    response.insert_header((CACHE_CONTROL, "no-store"));
    for (name, value) in [(CONTENT_TYPE, sent.content_type), (RETRY_AFTER, sent.retry_after)] {
        if let Some(value) = value {
            response.insert_header((name, value));
        }
    }
    // Errors have the shape that the other node gave them.
    let mut response = if sent.body.is_empty() { response.finish() } else { response.body(sent.body) };
    response.extensions_mut().insert(OwnShape);
    response
}

fn refusal(error: SpoolError, longest: u64) -> ApiError {
    match error {
        SpoolError::TooLong => {
            let detail = format!("the body is larger than {longest} bytes");
            Problem::new(ErrorCode::PayloadTooLarge, detail).into()
        }
        SpoolError::CutShort => {
            Problem::new(ErrorCode::ValidationFailed, "the body could not be read to its end").into()
        }
        SpoolError::Storage(error) => {
            tracing::error!(%error, "cannot keep the body of a request for another node");
            Problem::new(ErrorCode::ServiceUnavailable, "the body cannot be stored at the moment; try again")
                .retry_after(10)
                .into()
        }
    }
}
