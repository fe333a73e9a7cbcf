//! What tells a supervisor how the server is.

use std::sync::atomic::Ordering;

use actix_web::{HttpResponse, web};
use branchyard_http_common::AppState;

pub(crate) fn configure(config: &mut web::ServiceConfig) {
    config.route("/healthz", web::get().to(healthz)).route("/readyz", web::get().to(readyz));
}

/// The process answers; nothing else is asked.
async fn healthz() -> HttpResponse {
    text(HttpResponse::Ok(), "ok\n")
}

/// The metadata store answers, and the server is not about to end.
async fn readyz(state: web::Data<AppState>) -> HttpResponse {
    if state.draining.load(Ordering::Relaxed) {
        return text(HttpResponse::ServiceUnavailable(), "draining\n");
    }
    let hub = state.hub.clone();
    let asked = web::block(move || hub.ready()).await;
    match asked {
        Ok(Ok(())) => text(HttpResponse::Ok(), "ready\n"),
        Ok(Err(error)) => {
            tracing::error!(error = &error as &dyn std::error::Error, "not ready");
            text(HttpResponse::ServiceUnavailable(), "the metadata store does not answer\n")
        }
        Err(_) => text(HttpResponse::ServiceUnavailable(), "overloaded\n"),
    }
}

fn text(mut response: actix_web::HttpResponseBuilder, body: &'static str) -> HttpResponse {
    response.content_type("text/plain; charset=utf-8").body(body)
}
