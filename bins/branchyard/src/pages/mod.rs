//! What the server answers beside the APIs: health, and the pages that problem documents point to.

use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::{HttpResponse, web};
use branchyard_api_common::AppState;
use branchyard_problem_details::ErrorCode;

pub(crate) fn configure(config: &mut web::ServiceConfig) {
    config
        .route("/healthz", web::get().to(healthz))
        .route("/readyz", web::get().to(readyz))
        .route("/docs/errors", web::get().to(error_index))
        .route("/docs/errors/{suffix}", web::get().to(error_page));
}

/// The process answers; nothing else is asked.
async fn healthz() -> HttpResponse {
    text(HttpResponse::Ok(), "ok\n")
}

/// The metadata store answers, and the server is not about to end.
async fn readyz(state: web::Data<AppState>, draining: web::Data<AtomicBool>) -> HttpResponse {
    if draining.load(Ordering::Relaxed) {
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

async fn error_index() -> HttpResponse {
    let items: String = ErrorCode::ALL
        .iter()
        .map(|code| {
            format!("<li><a href=\"/docs/errors/{}\">{}</a> ({})</li>", code.suffix(), code.as_str(), code.status())
        })
        .collect();
    page("Errors", &format!("<ul>{items}</ul>"))
}

async fn error_page(suffix: web::Path<String>) -> HttpResponse {
    let Some(code) = ErrorCode::from_suffix(&suffix) else {
        return HttpResponse::NotFound()
            .content_type("text/plain; charset=utf-8")
            .body("no such error; see /docs/errors\n");
    };
    let told = code.explanation();
    let parts = [
        ("What it means", told.meaning),
        ("What a client does", told.client),
        ("What the operator does", told.operator),
    ];
    let body: String = parts.iter().map(|(title, text)| format!("<h2>{title}</h2><p>{}</p>", escape(text))).collect();
    page(code.title(), &format!("<p><code>{}</code>, status {}</p>{body}", code.as_str(), code.status()))
}

fn page(title: &str, body: &str) -> HttpResponse {
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title} · Branchyard</title><body><main><h1>{title}</h1>{body}</main></body></html>"
    );
    HttpResponse::Ok()
        .insert_header(("Content-Security-Policy", "default-src 'none'"))
        .content_type("text/html; charset=utf-8")
        .body(html)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
