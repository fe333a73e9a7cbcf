//! The routes: the endpoints that the handler modules declare.

use actix_web::middleware::from_fn;
use actix_web::{HttpRequest, HttpResponse, web};
use branchyard_http_common::{Endpoint, HandlerError, RequestContext, layer, mount};
use branchyard_openapi::EndpointDocs;

use crate::handlers;

/// Mounts the API. The application's data must hold `web::Data<AppState>` and `web::Data<Settings>`.
pub fn configure(config: &mut web::ServiceConfig) {
    let scope = mount(web::scope(crate::BASE), "", handlers::endpoints()).wrap(from_fn(layer));
    config.service(scope.default_service(web::to(no_route)));
}

/// Responds to requests without a route. The credential is checked first, as for all routes.
async fn no_route(request: HttpRequest) -> Result<HttpResponse, HandlerError> {
    RequestContext::without_body(&request).await?;
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
