//! The table of endpoints.

use actix_web::guard::{Guard, GuardContext};
use actix_web::http::Method;
use actix_web::http::header::ACCESS_CONTROL_REQUEST_METHOD;
use actix_web::middleware::from_fn;
use actix_web::web;
use actix_web::{HttpRequest, HttpResponse, Resource};
use branchyard_domain::access::{DatabaseAccess, Level, Read, Write};
use branchyard_domain::values::{ChunkHash, OwnerName};
use branchyard_http_common::{AppState, BodyClock, HandlerError, ReadsByPost, RequestContext, RequestPolicy, layer};
use branchyard_node_calls::{NodeCalls, PREFIX, Passed};
use branchyard_problem_details::{ErrorCode, Problem};
use branchyard_remote_protocol::{HASH_BYTES, MOST_HASHES};

use crate::answer::{BYTES, Outcome, Refusal, respond};
use crate::chunks;
use crate::endpoint::RemoteEndpoint;
use crate::pushes::{self, BATCH, RECORD_HEAD};
use crate::refs;

/// Maximum length of a body that names chunks, in bytes.
const MOST_BYTES: usize = MOST_HASHES * HASH_BYTES;
/// Maximum length of the refs that a client sends, in bytes. It has names and texts for many times as many as it may receive.
const MOST_REFS: usize = 8 << 20;

/// Mounts the endpoints.
pub fn configure(config: &mut web::ServiceConfig) {
    for endpoint in RemoteEndpoint::ALL {
        // A clone or a push has many requests for chunks, so they count against no quota.
        let is_counted = matches!(endpoint, RemoteEndpoint::Refs | RemoteEndpoint::RefsIf);
        let refuse = move |request: HttpRequest, body: web::Payload| refuse(request, body, endpoint);
        let resource = resource(endpoint, is_counted).default_service(web::to(refuse));
        config.service(resource.wrap(from_fn(layer)));
    }
}

/// Mounts, in the scope of calls between nodes, the endpoints that the node which leads the database serves.
pub fn configure_calls(config: &mut web::ServiceConfig) {
    for endpoint in [RemoteEndpoint::HasChunks, RemoteEndpoint::Chunks, RemoteEndpoint::RefsIf] {
        // The node that received the request has counted it.
        config.service(resource(endpoint, false));
    }
}

fn resource(endpoint: RemoteEndpoint, is_counted: bool) -> Resource {
    let resource = web::resource(format!("/{{owner}}/{{database}}/{}", endpoint.name())).guard(OfADatabase);
    let resource = resource.app_data(RequestPolicy { is_counted, accepts_keys: true, ..RequestPolicy::default() });
    match endpoint {
        RemoteEndpoint::Refs => resource.route(web::get().to(get_refs)),
        RemoteEndpoint::GetChunks => resource.app_data(ReadsByPost).route(web::post().to(get_chunks)),
        RemoteEndpoint::HasChunks => resource.route(web::post().to(has_chunks)),
        RemoteEndpoint::Chunks => resource.route(web::post().to(upload)),
        RemoteEndpoint::RefsIf => resource.route(web::put().to(change_ref)),
        RemoteEndpoint::Commit => resource.route(web::post().to(commit)),
    }
}

/// Lets requests pass whose first segment can be an owner. The pages have paths of three segments that begin with other words.
struct OfADatabase;

impl Guard for OfADatabase {
    fn check(&self, context: &GuardContext<'_>) -> bool {
        let path = context.head().uri.path();
        let path = path.strip_prefix(PREFIX).unwrap_or(path);
        let owner = path.split('/').nth(1).unwrap_or_default();
        OwnerName::parse(owner).is_ok_and(|owner| !owner.is_reserved())
    }
}

/// Reads a body and drops it, up to the longest one that a client sends, as long as it comes as fast as any body has to. The client
/// reads no answer before it has sent its whole request.
async fn discard(mut body: web::Payload, request: &HttpRequest) {
    let Some(state) = request.app_data::<web::Data<AppState>>() else { return };
    let (mut clock, mut left) = (BodyClock::streamed(&state.config.patience), longest_body(state) + (1 << 20));
    while let Ok(Some(Ok(piece))) = clock.next(&mut body).await {
        match left.checked_sub(piece.len()) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

/// Returns the length of the longest body that is accepted, in bytes.
fn longest_body(state: &AppState) -> usize {
    BATCH.max(state.config.remotes.max_chunk_bytes + RECORD_HEAD)
}

async fn get_refs(request: HttpRequest) -> HttpResponse {
    let outcome = async {
        let call = context(&request).await?;
        let access = call.access::<Read>().await?;
        let refs = call.read(move |hub| hub.remotes().refs(&access)).await?;
        Ok(HttpResponse::Ok().content_type(BYTES).body(refs::shown(&refs).encode()))
    };
    respond(&request, RemoteEndpoint::Refs, outcome.await)
}

async fn get_chunks(request: HttpRequest, body: web::Payload) -> HttpResponse {
    let outcome = async {
        let (call, access, body) = admitted::<Read>(&request, body).await?;
        let hashes = hashes(&call, body).await?;
        call.has_no_effect();
        Ok(chunks::answer(&request, call, access, hashes).await?)
    };
    let outcome = outcome.await;
    respond(&request, RemoteEndpoint::GetChunks, outcome)
}

async fn has_chunks(request: HttpRequest, body: web::Payload) -> HttpResponse {
    let outcome = async {
        let (call, access, body) = at_leader(&request, body, MOST_BYTES).await?;
        let hashes = hashes(&call, body).await?;
        call.has_no_effect();
        pushes::has(&call, access, hashes).await
    };
    let outcome = outcome.await;
    respond(&request, RemoteEndpoint::HasChunks, outcome)
}

async fn upload(request: HttpRequest, body: web::Payload) -> HttpResponse {
    let outcome = async {
        let longest = request.app_data::<web::Data<AppState>>().map_or(BATCH, |state| longest_body(state));
        let (call, access, body) = at_leader(&request, body, longest).await?;
        pushes::upload(&request, &call, access, body).await
    };
    let outcome = outcome.await;
    respond(&request, RemoteEndpoint::Chunks, outcome)
}

async fn change_ref(request: HttpRequest, body: web::Payload) -> HttpResponse {
    let outcome = async {
        let (call, access, body) = at_leader(&request, body, MOST_REFS).await?;
        let read = call.read_bytes(body.into_inner(), MOST_REFS).await?;
        pushes::change(&call, access, &read.bytes).await
    };
    let outcome = outcome.await;
    respond(&request, RemoteEndpoint::RefsIf, outcome)
}

/// Has nothing to do: the change of the ref was the end of the push.
async fn commit(request: HttpRequest, body: web::Payload) -> HttpResponse {
    let outcome: Outcome = async {
        let (_, _, body) = admitted::<Write>(&request, body).await?;
        discard(body, &request).await;
        Ok(HttpResponse::NoContent().finish())
    }
    .await;
    respond(&request, RemoteEndpoint::Commit, outcome)
}

/// Returns the context of a request and the access that it has, if it may have it. Otherwise the body is read first.
async fn admitted<L: Level>(
    request: &HttpRequest,
    body: web::Payload,
) -> Result<(RequestContext, DatabaseAccess<L>, web::Payload), Refusal> {
    let admitted = async {
        let call = context(request).await?;
        let access = call.access::<L>().await?;
        Ok::<_, HandlerError>((call, access))
    };
    match admitted.await {
        Ok((call, access)) => Ok((call, access, body)),
        Err(refusal) => {
            discard(body, request).await;
            Err(refusal.into())
        }
    }
}

/// Does what [`admitted`] does for a request of a push, which the node that leads the database serves. It keeps the chunks of the push.
async fn at_leader(
    request: &HttpRequest,
    body: web::Payload,
    longest: usize,
) -> Result<(RequestContext, DatabaseAccess<Write>, web::Payload), Refusal> {
    let (call, access, body) = admitted::<Write>(request, body).await?;
    let Some(calls) = NodeCalls::of(request) else { return Ok((call, access, body)) };
    match calls.pass(request, &call, access.database().id, body, longest as u64).await? {
        Passed::Here(body) => Ok((call, access, body)),
        Passed::Answered(response) => Err(Refusal::Passed(response)),
    }
}

/// Reads the hashes that a request names.
async fn hashes(call: &RequestContext, body: web::Payload) -> Result<Vec<ChunkHash>, HandlerError> {
    let read = call.read_bytes(body.into_inner(), MOST_BYTES).await.map_err(|error| match error {
        // A body that is too long is a malformed one, since its length is part of the protocol.
        HandlerError::Problem(problem) if problem.status() == 413 => {
            Problem::new(ErrorCode::ValidationFailed, "the body must be 1 to 4096 hashes of 20 bytes each").into()
        }
        other => other,
    })?;
    chunks::hashes(&read.bytes)
}

/// Returns the context of a request, if there are remotes.
async fn context(request: &HttpRequest) -> Result<RequestContext, HandlerError> {
    let call = RequestContext::without_body(request).await?;
    if call.state.config.remotes.enabled {
        return Ok(call);
    }
    Err(HandlerError::not_found("remotes are turned off on this server (remotes.enabled)"))
}

/// Refuses a request with another method, unless it is a browser's question whether a page of another origin may send one.
async fn refuse(request: HttpRequest, body: web::Payload, endpoint: RemoteEndpoint) -> HttpResponse {
    if request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return HttpResponse::NoContent().finish();
    }
    discard(body, &request).await;
    let problem = Problem::new(ErrorCode::NotFound, "the endpoint does not have this method");
    respond(&request, endpoint, Err(HandlerError::from(problem).into()))
}
