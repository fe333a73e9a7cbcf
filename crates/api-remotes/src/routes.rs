//! The table of endpoints.

use actix_web::dev::Payload;
use actix_web::guard::{Guard, GuardContext};
use actix_web::middleware::from_fn;
use actix_web::web;
use actix_web::{FromRequest, HttpRequest, HttpResponse};
use branchyard_domain::access::Read;
use branchyard_domain::values::OwnerName;
use branchyard_http_common::{AppState, BodyClock, HandlerError, RequestContext, RequestPolicy, layer};
use branchyard_problem_details::{ErrorCode, Problem};
use std::future::{Ready, ready};

use crate::answer::{BYTES, Outcome, respond};
use crate::chunks::{self, HASH_BYTES, MOST_HASHES};
use crate::endpoint::RemoteEndpoint;
use crate::refs;

/// Maximum length of a body that names chunks, in bytes.
const MOST_BYTES: usize = MOST_HASHES * HASH_BYTES;

/// Mounts the endpoints.
pub fn configure(config: &mut web::ServiceConfig) {
    for endpoint in RemoteEndpoint::ALL {
        let resource = web::resource(format!("/{{owner}}/{{database}}/{}", endpoint.name())).guard(OfADatabase);
        let resource = match endpoint {
            RemoteEndpoint::Refs => resource.route(web::get().to(get_refs)),
            // A clone has many of these, so they count against no quota.
            RemoteEndpoint::GetChunks => resource
                .app_data(RequestPolicy { is_counted: false, ..RequestPolicy::default() })
                .route(web::post().to(get_chunks)),
            RemoteEndpoint::HasChunks | RemoteEndpoint::Chunks | RemoteEndpoint::RefsIf | RemoteEndpoint::Commit => {
                resource
            }
        };
        let refuse = move |request: HttpRequest, body: RequestBytes| refuse(request, body, endpoint);
        config.service(resource.default_service(web::to(refuse)).wrap(from_fn(layer)));
    }
}

/// Lets requests pass whose first segment can be an owner. The pages have paths of three segments that begin with other words.
struct OfADatabase;

impl Guard for OfADatabase {
    fn check(&self, context: &GuardContext<'_>) -> bool {
        let owner = context.head().uri.path().split('/').nth(1).unwrap_or_default();
        OwnerName::parse(owner).is_ok_and(|owner| !owner.is_reserved())
    }
}

/// The body of a request that has not been read.
struct RequestBytes(Payload);

impl FromRequest for RequestBytes {
    type Error = HandlerError;
    type Future = Ready<Result<Self, HandlerError>>;

    fn from_request(_: &HttpRequest, payload: &mut Payload) -> Self::Future {
        ready(Ok(Self(payload.take())))
    }
}

impl RequestBytes {
    /// Reads the body and drops it, up to the length of a list of hashes, as long as it comes as fast as any body has to. The client
    /// reads no answer before it has sent its whole request.
    async fn discard(mut self, request: &HttpRequest) {
        let Some(state) = request.app_data::<web::Data<AppState>>() else { return };
        let (mut clock, mut left) = (BodyClock::bounded(&state.config.patience), MOST_BYTES);
        while let Ok(Some(Ok(piece))) = clock.next(&mut self.0).await {
            match left.checked_sub(piece.len()) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    }
}

async fn get_refs(request: HttpRequest) -> HttpResponse {
    let outcome = async {
        let call = context(&request).await?;
        let access = call.access::<Read>().await?;
        let refs = call.read(move |hub| hub.remotes().refs(&access)).await?;
        Ok(HttpResponse::Ok().content_type(BYTES).body(refs::encode(&refs)))
    };
    respond(&request, RemoteEndpoint::Refs, outcome.await)
}

async fn get_chunks(request: HttpRequest, body: RequestBytes) -> HttpResponse {
    let outcome = chunks_of(&request, body).await;
    respond(&request, RemoteEndpoint::GetChunks, outcome)
}

async fn chunks_of(request: &HttpRequest, body: RequestBytes) -> Outcome {
    let admitted = async {
        let call = context(request).await?;
        let access = call.access::<Read>().await?;
        Ok::<_, HandlerError>((call, access))
    };
    let (call, access) = match admitted.await {
        Ok(admitted) => admitted,
        Err(refusal) => {
            body.discard(request).await;
            return Err(refusal);
        }
    };
    let read = call.read_bytes(body.0, MOST_BYTES).await.map_err(|error| match error {
        // A body that is too long is a malformed one, since its length is part of the protocol.
        HandlerError::Problem(problem) if problem.status() == 413 => chunks::malformed(),
        other => other,
    })?;
    let hashes = chunks::hashes(&read.bytes)?;
    drop(read);
    call.has_no_effect();
    chunks::answer(request, call, access, hashes).await
}

/// Returns the context of a request, if there are remotes.
async fn context(request: &HttpRequest) -> Result<RequestContext, HandlerError> {
    let call = RequestContext::without_body(request).await?;
    if call.state.config.remotes.enabled {
        return Ok(call);
    }
    Err(HandlerError::not_found("remotes are turned off on this server (remotes.enabled)"))
}

/// Refuses a request of a push, which this server does not take, or one with another method.
async fn refuse(request: HttpRequest, body: RequestBytes, endpoint: RemoteEndpoint) -> HttpResponse {
    body.discard(&request).await;
    let detail = match endpoint {
        RemoteEndpoint::Refs | RemoteEndpoint::GetChunks => "the endpoint does not have this method",
        RemoteEndpoint::HasChunks | RemoteEndpoint::Chunks | RemoteEndpoint::RefsIf | RemoteEndpoint::Commit => {
            "this server takes no pushes; write to the database with SQL, imports or pull requests"
        }
    };
    let problem = Problem::new(ErrorCode::NotFound, detail);
    respond(&request, endpoint, Err(problem.into()))
}
