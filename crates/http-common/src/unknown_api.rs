//! Paths below `/api` that no API has.

use actix_web::guard::fn_guard;
use actix_web::http::header::{self, HeaderMap};
use actix_web::middleware::from_fn;
use actix_web::{HttpResponse, web};

use crate::handler_error::HandlerError;
use crate::layer::layer;
use crate::weighted_list::weighted_list;

/// Answers the paths below `/api` that no API has with a problem document, if the client accepts JSON. Register it after the APIs.
/// Requests of clients that would rather have a page pass on to later services.
pub fn unknown_api_paths(config: &mut web::ServiceConfig) {
    let scope = web::scope("/api").guard(fn_guard(|context| takes_json(context.head().headers())));
    config.service(scope.wrap(from_fn(layer)).default_service(web::to(no_route)));
}

async fn no_route() -> Result<HttpResponse, HandlerError> {
    Err(HandlerError::not_found("no such route"))
}

/// Returns `true` if the client accepts JSON and does not prefer HTML. Browsers list HTML with a higher weight than `*/*`; `curl` and
/// HTTP libraries send `*/*` alone or nothing.
fn takes_json(headers: &HeaderMap) -> bool {
    if !headers.contains_key(header::ACCEPT) {
        return true;
    }
    let wanted = weighted_list(headers, header::ACCEPT);
    let weight = |names: &[&str]| {
        let named = wanted.iter().filter(|(name, _)| names.contains(&name.as_str()));
        named.map(|(_, weight)| *weight).max().unwrap_or(0)
    };
    let json = weight(&["application/json", "application/problem+json", "application/*", "*/*"]);
    json > 0 && json >= weight(&["text/html", "application/xhtml+xml"])
}

#[cfg(test)]
mod tests {
    use super::takes_json;
    use actix_web::test::TestRequest;

    #[test]
    fn programs_get_json_and_browsers_a_page() {
        let asks = |accept: &str| {
            takes_json(TestRequest::default().insert_header(("Accept", accept)).to_http_request().headers())
        };
        assert!(takes_json(TestRequest::default().to_http_request().headers()));
        for program in [
            "*/*",
            "application/json",
            "application/problem+json",
            "application/*;q=0.5",
            "Application/JSON; charset=utf-8",
            "application/json, text/html",
            "text/html;q=0.5, application/json",
        ] {
            assert!(asks(program), "{program}");
        }
        for other in [
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
            "text/html",
            "text/csv",
            "application/json;q=0",
            "",
        ] {
            assert!(!asks(other), "{other}");
        }
    }
}
