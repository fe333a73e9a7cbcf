//! Maps requests to their successors in v2 (v1alpha1 §6).

use actix_web::http::Method;
use actix_web::{HttpMessage as _, HttpRequest};
use branchyard_http_common::{path_segment, segment, sent_parameter};

use crate::names;

const V2: &str = "/api/v2";

/// The v2 path of a request whose route does not determine it. A handler records it in the request's extensions.
pub(crate) struct BodySuccessor(pub(crate) String);

/// Returns the route of a request below its scope, such as `/{owner}/{database}/branches/{branch:.+}`.
fn route(request: &HttpRequest) -> Option<String> {
    let pattern = request.match_pattern()?;
    Some(pattern.strip_prefix(crate::BASE).unwrap_or(&pattern).to_owned())
}

/// Returns `true` if the request polls an operation.
pub(crate) fn is_poll(request: &HttpRequest) -> bool {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let polled = ["/fork", "/{owner}/{database}/write", "/{owner}/{database}/upload"];
    reads
        && route(request).is_some_and(|route| {
            polled.contains(&route.as_str()) || route == "/{owner}/{database}/pulls/{pull_id}/merge"
        })
}

/// Returns the absolute URL of the successor; `None` if there is none, or if the request does not determine it.
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

/// Records the successor that a handler has determined.
pub(crate) fn remember(request: &HttpRequest, path: String) {
    request.extensions_mut().insert(BodySuccessor(path));
}
