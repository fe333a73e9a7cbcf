//! Which requests are forwarded, and to which instance.

use std::net::SocketAddr;

use actix_web::HttpRequest;
use actix_web::http::header;
use branchyard_auth::{HashedToken, PlainToken};
use branchyard_deployments::access::Observe;
use branchyard_deployments::errors::DeploymentError;
use branchyard_domain::access::Caller;
use branchyard_domain::errors::PortError;
use branchyard_http_common::Services;

/// Returns the bearer token of a request that has exactly one `Authorization` header.
pub(crate) fn token(request: &HttpRequest) -> Option<PlainToken> {
    let mut values = request.headers().get_all(header::AUTHORIZATION);
    let (value, None) = (values.next()?.to_str().ok()?, values.next()) else { return None };
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| PlainToken::parse(token.trim()).ok()).flatten()
}

/// The reason why a request is not forwarded.
pub(crate) enum Refused {
    BadToken,
    NoDeployment(String),
    NotStarted(String),
    Port(PortError),
}

pub(crate) fn admit(services: &Services, token: &HashedToken, owner: &str, name: &str) -> Result<SocketAddr, Refused> {
    let user = match services.tokens().check(token) {
        Ok(found) => found.map(|(_, user)| user).ok_or(Refused::BadToken)?,
        Err(fault) => return Err(Refused::Port(fault)),
    };
    let refused = |error: DeploymentError| match error {
        DeploymentError::Port(fault) => Refused::Port(fault),
        DeploymentError::Conflict(text) => Refused::NotStarted(text),
        other => Refused::NoDeployment(other.to_string()),
    };
    let caller = Caller::User(user);
    let access = services.deployments().access::<Observe>(&caller, owner, name).map_err(refused)?;
    services.deployments().address(&access).map_err(refused)
}
