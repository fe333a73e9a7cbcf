//! Where the same request is made in v2 (v1alpha1 §6).

use actix_web::http::Method;
use actix_web::{HttpMessage as _, HttpRequest};
use branchyard_http_common::{path_segment, segment, sent_parameter};

use crate::names;

const V2: &str = "/api/v2";

/// A successor that only the body of a request tells; a handler puts it with the request.
pub(crate) struct BodySuccessor(pub(crate) String);

/// The route of a request below its scope, without the database: `/branches/{branch:.+}`.
fn route(request: &HttpRequest) -> Option<String> {
    let pattern = request.match_pattern()?;
    Some(pattern.strip_prefix(crate::BASE).unwrap_or(&pattern).to_owned())
}

/// Whether a request asks how an operation stands.
pub(crate) fn is_poll(request: &HttpRequest) -> bool {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let polled = ["/fork", "/{owner}/{database}/write", "/{owner}/{database}/upload"];
    reads
        && route(request).is_some_and(|route| {
            polled.contains(&route.as_str()) || route == "/{owner}/{database}/pulls/{pull_id}/merge"
        })
}

/// The absolute URL in v2; `None` where there is none, or the request does not tell it.
pub(crate) fn of(request: &HttpRequest, origin: &str) -> Option<String> {
    Some(format!("{origin}{V2}{}", path(request)?))
}

fn path(request: &HttpRequest) -> Option<String> {
    if is_poll(request) {
        let id = names::parse(&sent_parameter(request, "operationName")?)?;
        return Some(format!("/operations/{id}"));
    }
    if let Some(BodySuccessor(path)) = request.extensions().get::<BodySuccessor>() {
        return Some(path.clone());
    }
    let route = route(request)?;
    let named = |name: &str| segment(&path_segment(request, name));
    let below = |rest: &str| Some(format!("/databases/{}/{}{rest}", named("owner"), named("database")));
    let Some(rest) = route.strip_prefix("/{owner}/{database}") else {
        return match route.as_str() {
            "/user" => Some("/user".to_owned()),
            "/database" => Some("/databases".to_owned()),
            _ => None,
        };
    };
    match rest {
        "" | "/" | "/{ref:.+}" => below("/sql"),
        "/write/{branches:.*}" => below("/sql-writes"),
        "/upload" => below("/imports"),
        "/jobs" => below("/operations"),
        "/branches/{branch:.+}" => below(&format!("/branches/{}", named("branch"))),
        "/pulls/{pull_id}" => below(&format!("/pulls/{}", named("pull_id"))),
        "/pulls/{pull_id}/comments" => below(&format!("/pulls/{}/comments", named("pull_id"))),
        "/pulls/{pull_id}/merge" => below(&format!("/pulls/{}/merge", named("pull_id"))),
        "/forks" | "/branches" | "/tags" | "/releases" | "/pulls" => below(rest),
        _ => None,
    }
}

/// Keeps what the body of a request told.
pub(crate) fn remember(request: &HttpRequest, path: String) {
    request.extensions_mut().insert(BodySuccessor(path));
}
