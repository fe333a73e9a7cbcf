//! The table of routes.

use actix_web::middleware::from_fn;
use actix_web::{HttpRequest, HttpResponse, web};
use branchyard_http_common::{HandlerError, RequestContext, layer, mount};
use branchyard_openapi::Operation;

use crate::handlers;

/// Mounts the API. Needs `web::Data<AppState>` and `web::Data<Settings>` in the application's data.
pub fn configure(config: &mut web::ServiceConfig) {
    let scope = mount(web::scope(crate::BASE), "", handlers::endpoints()).wrap(from_fn(layer));
    config.service(scope.default_service(web::to(no_route)));
}

/// The credential is looked at first, as everywhere else.
async fn no_route(request: HttpRequest) -> Result<HttpResponse, HandlerError> {
    RequestContext::without_body(&request).await?;
    Err(HandlerError::not_found("no such route"))
}

/// Returns every operation of the API, in the order of the document.
pub(crate) fn operations() -> Vec<Operation> {
    handlers::endpoints().iter().map(|endpoint| endpoint.operation().clone()).collect()
}

/// Returns every route as a method and a path below [`crate::BASE`], for tests that go through all of them.
pub fn routes() -> Vec<(&'static str, String)> {
    operations().iter().map(|operation| (operation.http_method(), operation.template())).collect()
}
