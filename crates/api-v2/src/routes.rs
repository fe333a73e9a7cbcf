//! The routes: the endpoints that the handler modules declare.

use actix_web::middleware::from_fn;
use actix_web::{HttpResponse, Scope, web};
use branchyard_http_common::{Endpoint, HandlerError, layer, mount};
use branchyard_openapi::EndpointDocs;

use crate::handlers;

/// The path template of a database.
const DATABASE: &str = "/databases/{owner}/{database}";

/// Mounts the API. The application's data must hold `web::Data<AppState>`.
pub fn configure(config: &mut web::ServiceConfig) {
    let (of_database, others): (Vec<Endpoint>, Vec<Endpoint>) =
        handlers::endpoints().into_iter().partition(|endpoint| endpoint.operation().path.starts_with(DATABASE));
    // Databases have their own scope, so that actix matches owner and name once per request instead of once per candidate
    // route.
    let database = or_not_found(mount(web::scope(DATABASE), DATABASE, of_database));
    let all = mount(web::scope(crate::BASE).service(database), "", others);
    config.service(or_not_found(all).wrap(from_fn(layer)));
}

fn or_not_found(scope: Scope) -> Scope {
    scope.default_service(web::to(no_route))
}

async fn no_route() -> Result<HttpResponse, HandlerError> {
    Err(HandlerError::not_found("no such route"))
}

/// Returns all operations of the API, in the order of the OpenAPI document.
pub(crate) fn operations() -> Vec<EndpointDocs> {
    handlers::endpoints().iter().map(|endpoint| endpoint.operation().clone()).collect()
}

/// Returns all routes as pairs of a method and a path below [`crate::BASE`], for tests that exercise every route.
pub fn routes() -> Vec<(&'static str, String)> {
    handlers::endpoints().iter().map(Endpoint::route).collect()
}
