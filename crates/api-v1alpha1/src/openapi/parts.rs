//! The components that operations refer to: schemas, parameters, headers, responses.

use serde_json::{Map, Value, json};

use super::meanings;
use super::objects::{FieldKind, OBJECTS, ObjectField};

/// Returns the reference `{"$ref": "#/components/{kind}/{name}"}`.
pub(super) fn reference(kind: &str, name: &str) -> Value {
    json!({"$ref": format!("#/components/{kind}/{name}")})
}

pub(super) fn components() -> Value {
    json!({
        "securitySchemes": {"token": {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "`token <token>`, `Bearer <token>`, or the token alone.",
        }},
        "parameters": parameters(),
        "headers": header_components(),
        "responses": {
            "NotFound": problem("No such route."),
            "MethodNotAllowed": problem("The route does not have this method."),
        },
        "schemas": schemas(),
    })
}

fn problem(text: &str) -> Value {
    let mut headers = headers(&[]);
    headers["Allow"] = reference("headers", "Allow");
    let content = json!({"application/problem+json": {"schema": reference("schemas", "Problem")}});
    json!({"description": text, "headers": headers, "content": content})
}

fn schemas() -> Value {
    let mut schemas: Map<String, Value> =
        OBJECTS.iter().map(|(name, groups)| ((*name).to_owned(), object(name, &groups.concat()))).collect();
    let text = json!({"type": "string"});
    schemas.insert(
        "Problem".to_owned(),
        json!({
            "type": "object",
            "description": "Problem document (RFC 9457); only if no route of this API matched.",
            "required": ["type", "title", "status", "detail", "instance", "code", "request_id"],
            "properties": {
                "type": text, "title": text, "status": {"type": "integer"}, "detail": text, "instance": text,
                "code": text, "request_id": text,
            },
        }),
    );
    schemas.into()
}

fn object(name: &str, fields: &[ObjectField]) -> Value {
    let required: Vec<&str> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let property = |field: &ObjectField| {
        let mut property = kind(field.kind);
        for (known, value) in meanings::of(name, field.name) {
            property[known] = value;
        }
        (field.name.to_owned(), property)
    };
    let properties: Map<String, Value> = fields.iter().map(property).collect();
    let mut object = json!({"type": "object", "required": required, "properties": properties});
    if name == "PullEditRequest" {
        object["minProperties"] = 1.into();
    }
    object
}

fn kind(kind: FieldKind) -> Value {
    match kind {
        FieldKind::Text => json!({"type": "string"}),
        FieldKind::Bool => json!({"type": "boolean"}),
        FieldKind::Count => json!({"type": "integer", "minimum": 0}),
        FieldKind::Time => json!({"type": "string", "format": "date-time"}),
        FieldKind::Words(words) => json!({"type": "string", "enum": words}),
        FieldKind::Texts => json!({"type": "array", "items": {"type": "string"}}),
        FieldKind::One(name) => reference("schemas", name),
        FieldKind::List(name) => json!({"type": "array", "items": reference("schemas", name)}),
        FieldKind::Rows => json!({
            "type": "array",
            "items": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        }),
    }
}

/// Returns the headers of a response: those of every response, and those in `own`.
pub(super) fn headers(own: &[&str]) -> Value {
    let mut headers = json!({});
    for name in ["X-Request-Id", "Deprecation", "Sunset", "Link", "RateLimit", "RateLimit-Policy"].iter().chain(own) {
        headers[*name] = reference("headers", name);
    }
    headers
}

fn header_components() -> Value {
    let text = |description: &str| json!({"description": description, "schema": {"type": "string"}});
    let always = |mut header: Value| {
        header["required"] = true.into();
        header
    };
    json!({
        "X-Request-Id": always(text("The id from the request if it matches `[A-Za-z0-9._:-]{1,128}`; otherwise a new one.")),
        "Deprecation": always(json!({
            "description": "The time since which this API is deprecated (RFC 9745).",
            "schema": {"type": "string", "pattern": "^@-?[0-9]+$"},
        })),
        "Sunset": text("The time at which this API will be removed (RFC 8594), if known."),
        "Link": text("`rel=\"successor-version\"`: the same request in API v2; `rel=\"deprecation\"`: a page about the deprecation."),
        "RateLimit": text("Requests left and seconds until the reset, if rate limits are enabled."),
        "RateLimit-Policy": text("Quota and window in seconds, if rate limits are enabled."),
        "Retry-After": json!({
            "description": "Whole seconds to wait before the next attempt.",
            "schema": {"type": "integer", "minimum": 0},
        }),
        "WWW-Authenticate": text("How to authenticate, and what was wrong with the credential."),
        "Allow": text("The methods of the route."),
        "Cache-Control": text("`no-store` for the status of operations, and if the request had a credential."),
        "Content-Disposition": text("The name of the file."),
    })
}

fn parameters() -> Value {
    let text = json!({"type": "string"});
    let name = |min: u32, max: u32| json!({"type": "string", "minLength": min, "maxLength": max});
    let words = |all: &[&str]| json!({"type": "string", "enum": all});
    let parameter = |name: &str, place: &str, schema: &Value, text: &str| {
        let required = place == "path" || name == "operationName";
        json!({"name": name, "in": place, "required": required, "schema": schema, "description": text})
    };
    let path = |named: &str, of: &str| parameter(named, "path", &json!({"type": "string", "minLength": 1}), of);
    let query = |name: &str, schema: &Value, of: &str| parameter(name, "query", schema, of);
    json!({
        "owner": parameter("owner", "path", &name(3, 32), "A user or organization, in any letter case."),
        "database": parameter("database", "path", &name(1, 64), "Name of the database, in any letter case."),
        "username": path("username", "The caller."),
        "ref": path("ref", "A branch, tag, commit or expression: the whole rest of the path. Send a `/` as it is or as `%2F`."),
        "table": path("table", "Name of a table."),
        "branch": path("branch", "Name of a branch. Send a `/` in the name as `%2F` or as it is."),
        "from_branch": path("from_branch", "An existing branch. Send a `/` in the name as `%2F`."),
        "to_branch": path("to_branch", "The branch to write to, created from `from_branch` if missing. Send a `/` in the name as `%2F`."),
        "pull_id": parameter("pull_id", "path", &json!({"type": "string", "pattern": "^[1-9][0-9]*$"}), "Number of the pull request."),
        "q": query("q", &json!({"type": "string", "maxLength": 32_768}), "A read statement. Default if absent or blank: `SHOW TABLES;`."),
        "write_q": query("q", &json!({"type": "string", "maxLength": 32_768}), "The statements; takes precedence over `query` in the body. Without either, `from_branch` is merged into `to_branch`."),
        "operationName": query("operationName", &json!({"type": "string", "pattern": meanings::OPERATION}), "The name under which an operation was started, in any spelling."),
        "operationType": query("operationType", &words(&["SqlWrite", "Import", "Merge", "Fork", "SqlRead", "Migrate"]), "Only operations of this type."),
        "pageToken": query("pageToken", &text, "`next_page_token` of the previous page. If absent or empty, the first page is returned."),
        "filterByState": query("filterByState", &words(&["Open", "Closed", "Merged"]), "Only pull requests in this state."),
        "filterByReviewStatus": query("filterByReviewStatus", &words(&["Approved", "AssignedReviewer", "Rejected", "Reviewed"]), "There are no reviews, so the list is empty."),
        "query": query("query", &json!({"type": "string", "maxLength": 20_000}), "Part of the title or description, in any letter case; at most 20,000 bytes."),
        "include_bom": query("include_bom", &words(&["0", "1"]), "`1` puts a byte order mark first."),
    })
}
