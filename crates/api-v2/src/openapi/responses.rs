//! Responses: the success of an operation, and problem documents by status.

use branchyard_problem_details::ErrorCode;
use serde_json::{Map, Value, json};

use branchyard_http_common::ExportFormat;
use branchyard_openapi::{Body, Credential, EndpointDocs, Success, data_schema, one, reference};

use super::{examples, headers};

/// All problem responses: status, name of the component, and possible codes. Codes that only occur in the `error` of an
/// operation (`CANCELED`, `MERGE_CONFLICT`, `OPERATION_FAILED`) are not responses.
const PROBLEMS: &[(u16, &str, &[ErrorCode])] = &[
    (400, "ValidationFailed", &[ErrorCode::ValidationFailed]),
    (401, "Unauthenticated", &[ErrorCode::Unauthenticated]),
    (403, "PermissionDenied", &[ErrorCode::PermissionDenied]),
    (404, "NotFound", &[ErrorCode::NotFound]),
    (405, "MethodNotAllowed", &[ErrorCode::MethodNotAllowed]),
    (409, "Conflict", &[ErrorCode::Conflict]),
    (412, "PreconditionFailed", &[ErrorCode::PreconditionFailed]),
    (413, "PayloadTooLarge", &[ErrorCode::PayloadTooLarge]),
    (415, "UnsupportedMediaType", &[ErrorCode::UnsupportedMediaType]),
    (422, "Unprocessable", &[ErrorCode::Unprocessable]),
    (422, "IdempotencyKeyReused", &[ErrorCode::IdempotencyKeyReused]),
    (422, "UnprocessableOrKeyReused", &[ErrorCode::Unprocessable, ErrorCode::IdempotencyKeyReused]),
    (429, "RateLimited", &[ErrorCode::RateLimited]),
    (500, "Internal", &[ErrorCode::Internal]),
    (503, "ServiceUnavailable", &[ErrorCode::ServiceUnavailable]),
];

/// Returns all responses of an operation.
pub(super) fn of(docs: &EndpointDocs) -> Value {
    let mut responses: Map<String, Value> = Map::new();
    responses.insert(docs.status.to_string(), success(docs));
    if docs.method == "put" && matches!(docs.data, Success::One(_)) {
        // A `PUT` may create the resource.
        responses.insert("201".to_owned(), success(docs));
    }
    if is_queued(docs) {
        responses.insert("200".to_owned(), if is_sql_write(docs) { ended_or_previewed() } else { ended() });
    }
    if may_be_unmodified(docs) {
        let unmodified =
            json!({"description": "The client's copy is current.", "headers": headers::of(&["ETag!", "Retry-After"])});
        responses.insert("304".to_owned(), unmodified);
    }
    if docs.data == Success::File {
        responses.insert(
            "206".to_owned(),
            file("A part of the file.", &["ETag!", "Content-Range!", "Content-Disposition!"]),
        );
        let beyond = json!({"description": "The range is beyond the end of the file.", "headers": headers::of(&["Content-Range!"])});
        responses.insert("416".to_owned(), beyond);
    }
    for status in statuses(docs) {
        responses.insert(status.to_string(), reference("responses", problem(docs, status)));
    }
    responses.into()
}

/// Returns the component of the problem with this status.
fn problem(docs: &EndpointDocs, status: u16) -> &'static str {
    match (status, docs.error_sets.contains('K'), docs.errors.contains(&422)) {
        (422, true, false) => "IdempotencyKeyReused",
        (422, true, true) => "UnprocessableOrKeyReused",
        _ => PROBLEMS.iter().find(|(known, ..)| *known == status).map_or("Internal", |(_, name, _)| name),
    }
}

/// Returns `true` if the operation supports `If-None-Match`.
pub(super) fn may_be_unmodified(docs: &EndpointDocs) -> bool {
    docs.method == "get" && matches!(docs.data, Success::One(_) | Success::Document | Success::File)
}

/// Returns `true` if the effect is an operation, whose end the client can wait for.
pub(super) fn is_queued(docs: &EndpointDocs) -> bool {
    docs.status == 202 && matches!(docs.data, Success::One("OperationRef"))
}

/// Returns the response to a client that waited for the end of the operation.
fn ended() -> Value {
    let mut content = json!({"schema": data_schema(Success::One("Operation"))});
    content["example"] = one(examples::object("Operation"));
    json!({
        "description": "The operation, succeeded or failed, if it ended within the time that `Prefer: wait` allows.",
        "headers": headers::of(&["ETag!", "Preference-Applied!", "Idempotent-Replayed"]),
        "content": {"application/json": content},
    })
}

/// Returns a response with a file in any format of exports.
fn file(description: &str, own: &[&str]) -> Value {
    let mut content = json!({});
    for (_, format) in ExportFormat::ALL {
        let media_type = format.media_type().split(';').next().unwrap_or_default();
        content[media_type] = json!({"schema": {"type": "string", "format": "binary"}});
    }
    let rows = json!({"type": "array", "items": {"type": "object", "additionalProperties": true}});
    content["application/json"] = json!({"schema": rows, "example": [{"id": 1, "name": "Alice"}]});
    json!({"description": description, "headers": headers::of(own), "content": content})
}

fn is_sql_write(docs: &EndpointDocs) -> bool {
    docs.path.ends_with("/sql-writes")
}

/// Returns the response to a client that waited for the end of a write, or asked for a preview of it.
fn ended_or_previewed() -> Value {
    let mut response = ended();
    response["description"] =
        json!("The operation, if it ended within the time that `Prefer: wait` allows, or the preview, with `dry_run`.");
    response["headers"] = headers::of(&["ETag!", "Preference-Applied", "Idempotent-Replayed"]);
    let content = &mut response["content"]["application/json"];
    content["schema"]["properties"]["data"] =
        json!({"anyOf": [reference("schemas", "Operation"), reference("schemas", "SqlPreview")]});
    response
}

fn success(docs: &EndpointDocs) -> Value {
    if docs.data == Success::File {
        return file(docs.summary, &["ETag", "Content-Disposition!", "Accept-Ranges"]);
    }
    let Some(schema) = data_schema(docs.data) else {
        return json!({"description": "Done.", "headers": headers::of(&["ETag!"])});
    };
    let mut content = json!({"application/json": {"schema": schema}});
    if let Some(example) = docs.success_example(examples::object) {
        content["application/json"]["example"] = example;
    }
    if is_sql_read(docs) {
        let of =
            |text: &str, example: &str| json!({"schema": {"type": "string", "description": text}, "example": example});
        content["application/x-ndjson"] =
            of("One line with the columns, one line per row, and a last line with the outcome.", examples::NDJSON);
        content["text/csv"] =
            of("RFC 4180 with LF line ends. If the result breaks off, the connection is closed early.", examples::CSV);
    }
    json!({"description": docs.summary, "headers": headers::of(&own_headers(docs)), "content": content})
}

fn is_sql_read(docs: &EndpointDocs) -> bool {
    docs.path.ends_with("/sql")
}

fn own_headers(docs: &EndpointDocs) -> Vec<&'static str> {
    let mut own = Vec::new();
    match (docs.method, docs.status) {
        ("get", _) if is_sql_read(docs) => own.push("ETag"),
        ("get", _) if may_be_unmodified(docs) => own.push("ETag!"),
        ("post", 201) => own.extend(["ETag", "Location"]),
        ("post", 200) if !is_sql_read(docs) => own.push("ETag"),
        ("patch" | "put", _) => own.extend(["ETag", "Location"]),
        (_, 202) => own.extend(["Location!", "Retry-After!"]),
        _ => {}
    }
    if matches!(docs.data, Success::One("Operation")) {
        own.push("Retry-After");
    }
    if docs.error_sets.contains('K') {
        own.push("Idempotent-Replayed");
    }
    own
}

/// Returns the statuses of the error sets (v2 §1.7) and of the operation itself, in ascending order.
fn statuses(docs: &EndpointDocs) -> Vec<u16> {
    let mut all = vec![405, 500, 503];
    if !matches!(docs.credential, Credential::Ignored) {
        all.extend_from_slice(&[401, 429]);
    }
    if docs.writes() {
        all.push(403);
    }
    for set in docs.error_sets.chars() {
        all.extend_from_slice(match set {
            'D' => &[404],
            'L' => &[400],
            'B' => &[400, 413, 415],
            'K' => &[400, 409, 422],
            'P' => &[403],
            'M' => &[412],
            _ => &[],
        });
    }
    // A body is read even if the operation does not declare one.
    if docs.method == "post" && matches!(docs.body, Body::None) {
        all.extend_from_slice(&[400, 413, 415]);
    }
    all.extend_from_slice(docs.errors);
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the components of all problem responses, each with its possible codes.
pub(super) fn problems() -> Value {
    let mut all = json!({});
    for (status, name, codes) in PROBLEMS {
        let meanings: Vec<String> =
            codes.iter().map(|code| format!("`{}`: {}", code.as_str(), code.explanation().meaning)).collect();
        let own: &[&str] = match status {
            401 => &["WWW-Authenticate!"],
            403 => &["WWW-Authenticate"],
            405 => &["Allow!"],
            429 | 503 => &["Retry-After!"],
            409 => &["Retry-After"],
            _ => &[],
        };
        all[*name] = json!({
            "description": meanings.join("\n\n"),
            "headers": headers::of(own),
            "content": {"application/problem+json": {
                "schema": reference("schemas", "Problem"),
                "examples": codes.iter().map(|code| (code.as_str().to_owned(), json!({"value": examples::problem(*code)}))).collect::<Map<_, _>>(),
            }},
        });
    }
    all
}
