//! Which requests are forwarded, and to which instance.

use std::net::SocketAddr;
use std::sync::Arc;

use actix_web::http::{StatusCode, header};
use actix_web::{HttpRequest, HttpResponse};
use branchyard_auth::{BearerHash, bearer_token};
use branchyard_deployments::access::Observe;
use branchyard_deployments::errors::DeploymentError;
use branchyard_domain::access::Caller;
use branchyard_domain::errors::PortError;
use branchyard_domain::values::AccountId;
use branchyard_http_common::{AppState, CallerKey, Guesses, PoolError, Services, path_segment};

use crate::in_progress::{InProgress, PER_CALLER, RequestPermit, TooMany};
use crate::refusals::{rate_limited, refuse, unauthenticated, unavailable};

/// Maximum number of rejected credentials per address and second; an instance has the same limit.
const REJECTED: u32 = 10;

/// Decides which requests are forwarded. Shared by all workers.
pub(crate) struct Admission {
    guesses: Guesses,
    requests: InProgress,
}

/// A request that is to be forwarded.
pub(crate) struct AdmittedRequest {
    /// The address of the instance.
    pub(crate) instance: SocketAddr,
    pub(crate) permit: RequestPermit,
}

impl Default for Admission {
    fn default() -> Self {
        Self { guesses: Guesses::new(REJECTED, 1), requests: InProgress::default() }
    }
}

impl Admission {
    /// Admits a request, or returns the response that refuses it.
    pub(crate) async fn admit(&self, request: &HttpRequest, state: &AppState) -> Result<AdmittedRequest, HttpResponse> {
        if !request.headers().contains_key(header::AUTHORIZATION) {
            return Err(unauthenticated(false));
        }
        let (from, now) = (state.client_address(request), state.services.now());
        let token = token(request);
        // Checked before any look-up, so that guessing costs the server nothing once an address has used up its quota.
        if self.guesses.wait(from, token.as_ref().map(|token| token.hash().as_bytes()), now).is_some() {
            return Err(rate_limited("too many credentials of this address were rejected; try again in a second"));
        }
        let reject = || {
            self.guesses.reject(from, now);
            unauthenticated(true)
        };
        let token = token.ok_or_else(reject)?;
        let (user, instance) = match find(request, state, &token).await {
            Ok(found) => found,
            Err(NotFound::BadToken) => return Err(reject()),
            Err(refused) => return Err(refused.into()),
        };
        self.guesses.accept(*token.hash().as_bytes());
        let permit = self.requests.take(CallerKey::User(user)).map_err(HttpResponse::from)?;
        Ok(AdmittedRequest { instance, permit })
    }
}

/// Returns the hash of the bearer token of a request that has exactly one `Authorization` header.
fn token(request: &HttpRequest) -> Option<BearerHash> {
    let mut values = request.headers().get_all(header::AUTHORIZATION);
    let (value, None) = (values.next()?.to_str().ok()?, values.next()) else { return None };
    BearerHash::parse(bearer_token(value)?).ok()
}

/// The reason why no instance was found for a request.
enum NotFound {
    BadToken,
    NoDeployment(String),
    NotStarted(String),
    Port(PortError),
    Pool(PoolError),
}

impl From<DeploymentError> for NotFound {
    fn from(error: DeploymentError) -> Self {
        match error {
            DeploymentError::Port(fault) => Self::Port(fault),
            DeploymentError::Conflict(text) => Self::NotStarted(text),
            other => Self::NoDeployment(other.to_string()),
        }
    }
}

impl From<NotFound> for HttpResponse {
    fn from(reason: NotFound) -> Self {
        match reason {
            NotFound::BadToken => unauthenticated(true),
            NotFound::NoDeployment(text) => refuse(StatusCode::NOT_FOUND, "NOT_FOUND", &text),
            NotFound::NotStarted(text) => unavailable(&text),
            NotFound::Port(fault) => {
                tracing::error!(error = &fault as &dyn std::error::Error, "the gateway cannot read the metadata store");
                unavailable("the server cannot do this just now; try again")
            }
            NotFound::Pool(PoolError::Lost) => {
                tracing::error!("a call of the gateway was lost to a panic");
                unavailable("the server cannot do this just now; try again")
            }
            NotFound::Pool(
                PoolError::Full | PoolError::TooLong | PoolError::CallerQueueFull(_) | PoolError::ShareInUse,
            ) => unavailable("the server is busy; try again"),
        }
    }
}

impl From<TooMany> for HttpResponse {
    fn from(reason: TooMany) -> Self {
        match reason {
            TooMany::OfCaller => {
                rate_limited(&format!("{PER_CALLER} requests of yours are running; wait for one to finish"))
            }
            TooMany::InAll => unavailable("the server passes on as many requests as it can; try again"),
        }
    }
}

/// Returns the user and the address of the instance.
async fn find(
    request: &HttpRequest,
    state: &AppState,
    token: &BearerHash,
) -> Result<(AccountId, SocketAddr), NotFound> {
    let (owner, name) = (path_segment(request, "owner"), path_segment(request, "deployment"));
    let (services, token) = (state.services.clone(), *token);
    let known = services.known_token(&token);
    let caller = known.map_or_else(|| state.address_key(request), |found| CallerKey::User(found.user().id));
    let found = state.reads.run(caller, move || look_up(&services, &token, &owner, &name)).await;
    found.map_err(NotFound::Pool)?
}

fn look_up(
    services: &Services,
    token: &BearerHash,
    owner: &str,
    name: &str,
) -> Result<(AccountId, SocketAddr), NotFound> {
    let found = services.check_token(token, None).map_err(NotFound::Port)?.ok_or(NotFound::BadToken)?;
    let user = Arc::clone(found.user());
    let id = user.id;
    let access = services.deployments().access::<Observe>(&Caller::User(user), owner, name)?;
    Ok((id, services.deployments().address(&access)?))
}
