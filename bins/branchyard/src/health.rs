//! The health endpoints that a process supervisor polls.

use std::sync::atomic::Ordering;

use actix_web::{HttpResponse, web};
use branchyard_http_common::AppState;

pub(crate) fn configure(config: &mut web::ServiceConfig) {
    config.route("/healthz", web::get().to(healthz)).route("/readyz", web::get().to(readyz));
}

/// Answers 200 as long as the process can handle requests. Checks nothing else.
async fn healthz() -> HttpResponse {
    text(HttpResponse::Ok(), "ok\n")
}

/// Answers 200 if the metadata store can be read, the server is not draining and the node is not drained; otherwise 503. A server that
/// only serves reads says so with 200, because a balancer would not send it reads otherwise. A store that is busy with writes is ready:
/// `branchyard_writes_saturation` shows it.
async fn readyz(state: web::Data<AppState>) -> HttpResponse {
    if state.draining.load(Ordering::Relaxed) {
        return text(HttpResponse::ServiceUnavailable(), "draining\n");
    }
    if state.drained.load(Ordering::Relaxed) {
        return text(
            HttpResponse::ServiceUnavailable(),
            "this node is drained; `branchyard node drain --undo` ends that\n",
        );
    }
    let services = state.services.clone();
    let asked = web::block(move || services.ready()).await;
    match asked {
        Ok(Ok(())) if state.services.is_read_only() => {
            text(HttpResponse::Ok(), "ready, read-only: the metadata are older than the store of databases\n")
        }
        Ok(Ok(())) => text(HttpResponse::Ok(), "ready\n"),
        Ok(Err(error)) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the readiness check failed");
            text(HttpResponse::ServiceUnavailable(), "the metadata store does not answer\n")
        }
        Err(_) => text(HttpResponse::ServiceUnavailable(), "overloaded\n"),
    }
}

fn text(mut response: actix_web::HttpResponseBuilder, body: &'static str) -> HttpResponse {
    response.content_type("text/plain; charset=utf-8").body(body)
}
