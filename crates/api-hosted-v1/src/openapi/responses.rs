//! Responses: the success of an operation, and problem documents by status.

use branchyard_openapi::{EndpointDocs, Success, data_schema, reference};
use branchyard_problem_details::{ErrorCode, Problem};
use serde_json::{Map, Value, json};

use super::examples;

/// All problem responses: status, name of the component, headers, and possible codes.
const PROBLEMS: &[(u16, &str, &[&str], &[ErrorCode])] = &[
    (400, "ValidationFailed", &[], &[ErrorCode::ValidationFailed]),
    (401, "Unauthenticated", &["WWW-Authenticate"], &[ErrorCode::Unauthenticated]),
    (403, "PermissionDenied", &["WWW-Authenticate"], &[ErrorCode::PermissionDenied]),
    (404, "NotFound", &[], &[ErrorCode::NotFound]),
    (405, "MethodNotAllowed", &["Allow"], &[ErrorCode::MethodNotAllowed]),
    (409, "Conflict", &["Retry-After"], &[ErrorCode::Conflict]),
    (412, "PreconditionFailed", &[], &[ErrorCode::PreconditionFailed]),
    (413, "PayloadTooLarge", &[], &[ErrorCode::PayloadTooLarge]),
    (415, "UnsupportedMediaType", &[], &[ErrorCode::UnsupportedMediaType]),
    (
        422,
        "Unprocessable",
        &[],
        &[
            ErrorCode::Unprocessable,
            ErrorCode::Unsupported,
            ErrorCode::SpendingLimitExceeded,
            ErrorCode::CapacityExceeded,
            ErrorCode::IdempotencyKeyReused,
        ],
    ),
    (429, "RateLimited", &["Retry-After"], &[ErrorCode::RateLimited]),
    (500, "Internal", &[], &[ErrorCode::Internal]),
    (503, "ServiceUnavailable", &["Retry-After"], &[ErrorCode::ServiceUnavailable]),
];

/// Headers of every response.
const ALWAYS: &[&str] = &["X-Request-Id", "Cache-Control", "Vary", "RateLimit", "RateLimit-Policy"];

fn headers(own: &[&str]) -> Value {
    let mut headers = json!({});
    for name in ALWAYS.iter().chain(own) {
        headers[*name] = reference("headers", name);
    }
    headers
}

/// Returns all responses of an operation.
pub(super) fn of(docs: &EndpointDocs) -> Value {
    let mut responses: Map<String, Value> = Map::new();
    if !matches!(docs.data, Success::Nothing) {
        responses.insert(docs.status.to_string(), success(docs));
        if docs.method == "put" {
            responses.insert("201".to_owned(), success(docs));
        }
        if docs.method == "get" && matches!(docs.data, Success::One(_) | Success::File | Success::Document) {
            let unmodified =
                json!({"description": "The client's copy is current.", "headers": headers(&["ETag", "Retry-After"])});
            responses.insert("304".to_owned(), unmodified);
        }
    }
    let of_scope = docs.writes().then_some(403);
    for status in [401, 405, 429, 500, 503].into_iter().chain(of_scope).chain(docs.errors.iter().copied()) {
        let name = PROBLEMS.iter().find(|(known, ..)| *known == status).map_or("Internal", |(_, name, ..)| name);
        responses.insert(status.to_string(), reference("responses", name));
    }
    responses.into()
}

fn success(docs: &EndpointDocs) -> Value {
    if docs.data == Success::File {
        let content = json!({"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}});
        return json!({"description": docs.summary, "headers": headers(&["ETag"]), "content": content});
    }
    let schema = data_schema(docs.data);
    let mut content = json!({"application/json": {"schema": schema}});
    if let Some(example) = docs.success_example(examples::object) {
        content["application/json"]["example"] = example;
    }
    let own: &[&str] = match (docs.method, docs.status) {
        ("get" | "patch", _) => &["ETag", "Retry-After"],
        ("post", _) => &["Location", "Retry-After", "Idempotent-Replayed"],
        ("delete", 202) => &["Location", "Retry-After"],
        _ => &[],
    };
    json!({"description": docs.summary, "headers": headers(own), "content": content})
}

/// Returns the components of all problem responses, each with an example of every possible code.
pub(super) fn problems() -> Value {
    let mut components: Map<String, Value> = Map::new();
    for (_, name, own, codes) in PROBLEMS {
        let mut shown = json!({});
        for code in *codes {
            let problem = Problem::new(*code, code.explanation().meaning);
            let document = problem.document("https://yard.test/docs/errors", "/api/v1/deployments", "req_0199c3a2");
            shown[code.as_str()] = json!({"value": document});
        }
        let titles: Vec<&str> = codes.iter().map(|code| code.title()).collect();
        let content =
            json!({"application/problem+json": {"schema": reference("schemas", "Problem"), "examples": shown}});
        let response = json!({"description": titles.join(", or "), "headers": headers(own), "content": content});
        components.insert((*name).to_owned(), response);
    }
    components.into()
}
