//! Middleware that lets nothing pass but the calls of other nodes.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header;
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage as _, HttpResponse, web};
use branchyard_http_common::{AppState, CallerAddress, HandlerError, RequestId};
use branchyard_problem_details::{ErrorCode, Problem};

use crate::nonces::NonceUse;
use crate::passing::NodeCalls;
use crate::statement::{CoveredRequest, HEADER, LEEWAY_SECONDS, Statement};
use crate::verified_body::verified;

/// Marks a request that another node made. It is passed on no further. Kept in the request's extensions.
#[derive(Debug, Clone, Copy)]
pub struct IsCall;

/// Refuses requests that no node of the cluster has signed, that are older than a minute, or that were made before. The body of a call
/// ends with an error if it is not the signed one. Middleware for the scope of [`PREFIX`](crate::PREFIX), within
/// [`layer`](branchyard_http_common::layer).
///
/// # Errors
/// Only those of the inner service. Refusals are responses: 404 on a server that makes no calls, 401 for a call that does not count, 503
/// if there were too many.
pub async fn admit(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    match statement_of(&request) {
        Ok(statement) => {
            request.extensions_mut().insert(IsCall);
            request.extensions_mut().insert(CallerAddress(statement.caller));
            let body = verified(request.take_payload(), statement.body);
            request.set_payload(body);
            Ok(next.call(request).await?.map_into_boxed_body())
        }
        // `ServiceRequest::into_response` would lose the error, which the layer renders.
        Err(problem) => {
            let refusal = HttpResponse::from_error(HandlerError::from(problem));
            Ok(ServiceResponse::new(request.into_parts().0, refusal))
        }
    }
}

fn statement_of(request: &ServiceRequest) -> Result<Statement, Problem> {
    let calls = request.app_data::<web::Data<NodeCalls>>();
    let calls = calls.ok_or_else(|| Problem::new(ErrorCode::NotFound, "this server makes no calls to other nodes"))?;
    let state = request.app_data::<web::Data<AppState>>().ok_or_else(Problem::internal)?;
    let refused = |why: &str| {
        tracing::warn!(why, "refused a call that should come from another node");
        Problem::new(ErrorCode::Unauthenticated, format!("a call between nodes {why}"))
    };
    let headers = request.headers();
    let sent = headers.get(HEADER).and_then(|value| value.to_str().ok());
    let sent = sent.ok_or_else(|| refused("has to be signed by a node of the cluster"))?;
    let id = RequestId::of_request(request.request(), &state.services);
    let covered = CoveredRequest {
        method: request.method().as_str(),
        target: request.uri().path_and_query().map_or_else(|| request.path(), |target| target.as_str()),
        request_id: id.as_str(),
        credential: headers.get(header::AUTHORIZATION).map(header::HeaderValue::as_bytes),
    };
    let statement = Statement::verify(sent, calls.key(), covered);
    let statement = statement.ok_or_else(|| refused("has to be signed with the master key of this cluster"))?;
    let now = state.services.now().as_seconds();
    if (now - statement.at).abs() > LEEWAY_SECONDS {
        return Err(refused("counts for a minute; the clocks of the two nodes may differ by more"));
    }
    match calls.note(statement.nonce, statement.at, now) {
        NonceUse::First => Ok(statement),
        NonceUse::Repeated => Err(refused("counts once")),
        NonceUse::TooMany => {
            let detail = "the other nodes have made too many calls within the last minutes; try again";
            Err(Problem::new(ErrorCode::ServiceUnavailable, detail).retry_after(10))
        }
    }
}
