//! Components of the document: the schemas, parameters and responses that operations refer to.

use branchyard_openapi::{EndpointDocs, Schemas, drop_null, error_code, reference, security_schemes};
use serde_json::{Value, json};

use super::{constraints, headers, responses};
use crate::wire;

pub(super) fn all(operations: &[EndpointDocs], public_url: &str) -> Value {
    json!({
        "securitySchemes": security_schemes(public_url),
        "parameters": parameters(),
        "headers": headers::components(),
        "responses": responses::problems(),
        "schemas": schemas(operations),
    })
}

fn schemas(operations: &[EndpointDocs]) -> Value {
    let mut schemas = Schemas::default();
    macro_rules! add {
        ($($name:ident),+ $(,)?) => { $(schemas.add::<wire::$name>(&tidy);)+ };
    }
    add!(
        User,
        Token,
        UserKey,
        Mirror,
        Organization,
        Member,
        Collaborator,
        Database,
        DatabaseRef,
        Branch,
        Tag,
        Release,
        PullSummary,
        Pull,
        WithdrawnPull,
        PullComment,
        Operation,
        OperationRef,
        ImportUpload,
        QueryResult,
        Commit,
        RowDiff,
        RowRevision,
        RowBlame,
        TableDiff,
        SqlPreview,
        Conflict,
        TableSchema,
        Hook,
        LastDelivery,
        DeliverySummary,
        Delivery,
        DeliveryRequest,
        DeliveryAttempt,
    );
    schemas.add_bodies(operations, &|_, _| ());
    schemas.insert("ErrorCode", error_code());
    schemas.insert("Problem", problem());
    schemas.insert("Meta", meta());
    schemas.insert("Envelope", envelope());
    schemas.into_value()
}

/// Optional fields that may also be `null`.
const NULLABLE: &[(&str, &str)] =
    &[("Conflict", "base"), ("Conflict", "ours"), ("Conflict", "theirs"), ("CellBlame", "from")];

/// Adds to a schema what the Rust types cannot express: optional fields are never `null`, and fields named `…_at` have the
/// format `date-time`.
fn tidy(name: &str, schema: &mut Value) {
    if let Some(parts) = schema.get_mut("allOf").and_then(Value::as_array_mut) {
        parts.iter_mut().for_each(|part| tidy(name, part));
    }
    let required: Vec<Value> = schema["required"].as_array().cloned().unwrap_or_default();
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (field, property) in properties {
        let may_be_null = required.iter().any(|known| known == field) || NULLABLE.contains(&(name, field.as_str()));
        if !may_be_null {
            drop_null(property);
        }
        if field.ends_with("_at") && property["type"] == "string" {
            property["format"] = "date-time".into();
        }
        constraints::add(name, field, property);
    }
}

fn problem() -> Value {
    let text = json!({"type": "string"});
    let place = json!({"type": "object", "required": ["detail"], "properties": {
        "pointer": text, "parameter": text, "line": {"type": "integer"}, "column": text, "detail": text,
    }});
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail", "instance", "code", "request_id"],
        "properties": {
            "type": {"type": "string", "format": "uri"},
            "title": text,
            "status": {"type": "integer"},
            "detail": text,
            "instance": text,
            "code": reference("schemas", "ErrorCode"),
            "request_id": text,
            "errors": {"type": "array", "maxItems": 100, "items": place},
        },
    })
}

fn meta() -> Value {
    let searched = json!({
        "type": "object",
        "required": ["commits"],
        "description": "Only in histories of rows: how far the page looked.",
        "properties": {
            "commits": {"type": "integer", "description": "Number of commits that were looked at for this page."},
            "to_commit": {"type": "string", "description": "The last of them."},
            "key_changed_by": {"type": "string", "description": "The commit at which the history ends, because it changed the columns of the primary key."},
        },
    });
    let next = json!({"type": "string", "description": "Absent on the last page."});
    json!({"type": "object", "properties": {"next_page_token": next, "searched": searched}})
}

fn envelope() -> Value {
    json!({"type": "object", "required": ["data"], "properties": {"data": {}, "meta": reference("schemas", "Meta")}})
}

fn parameter(name: &str, place: &str, required: bool, schema: &Value, text: &str) -> Value {
    json!({"name": name, "in": place, "required": required, "schema": schema, "description": text})
}

/// Describes the parameter that names a row.
const ROW_KEY: &str = "The row: a JSON object of all columns of the primary key and their values, as strings or numbers, or \
                       `{\"base64\": \"…\"}` for a blob.";

fn parameters() -> Value {
    let text = json!({"type": "string"});
    let filled = constraints::text(true);
    let count = json!({"type": "integer", "minimum": 1});
    let words = |all: &[&str]| json!({"type": "string", "enum": all});
    let path = |name: &str, text_of: &str| parameter(name, "path", true, &text, text_of);
    let query = |name: &str, schema: &Value, text_of: &str| parameter(name, "query", false, schema, text_of);
    let mut all = json!({
        "owner": parameter("owner", "path", true, &constraints::owner(), "A user or organization, in any letter case."),
        "of_owner": query("owner", &constraints::text(false), "Only databases of this owner."),
        "organization": parameter("organization", "path", true, &constraints::owner(), "Name of the organization, in any letter case."),
        "username": parameter("username", "path", true, &constraints::owner(), "Name of the user, in any letter case."),
        "token_id": path("token_id", "The `id` of a token."),
        "key_id": path("key_id", "The `id` of a key."),
        "database": parameter("database", "path", true, &constraints::database(), "Name of the database, in any letter case."),
        "branch": path("branch", "Name of a branch. Send a `/` in the name as `%2F` or as it is."),
        "tag": path("tag", "Name of a tag. Send a `/` in the name as `%2F` or as it is."),
        "pull_number": parameter("pull_number", "path", true, &json!({"type": "string", "pattern": "^[1-9][0-9]*$"}), "Number of the pull request."),
        "operation_id": path("operation_id", "The `id` of an operation as one segment, with raw slashes, its UUID alone, or its `href`."),
        "upload_id": path("upload_id", "Part of the URL that the session returned: the id of the session."),
        "part_number": path("part_number", "Part of the URL that the session returned."),
        "expires": parameter("expires", "query", true, &text, "Part of the URL that the session returned."),
        "signature": parameter("signature", "query", true, &text, "Part of the URL that the session returned."),
        "page_token": query("page_token", &json!({"type": "string", "maxLength": 4096}), "`next_page_token` of the previous page. If absent or empty, the first page is returned. Keep the filters unchanged."),
        "page_size": query("page_size", &json!({"type": "integer", "minimum": 1, "default": 30}), "Maximum number of items. Values above 100 count as 100. A page with fewer items may still be followed by another."),
        "long_page_size": query("page_size", &json!({"type": "integer", "minimum": 1, "default": 1000}), "Maximum number of items. Values above 1,000 count as 1,000."),
        "q": query("q", &json!({"type": "string", "minLength": 1, "maxLength": 200, "pattern": r"^[^\u0000]*$"}), "Part of the name or description, in any letter case."),
        "sql_q": parameter("q", "query", true, &json!({"type": "string", "minLength": 1, "maxLength": 32_768, "pattern": r"^[^\u0000]*$"}), "The statement, at most 32 KiB. A request target above 65,534 bytes does not reach the API (400 without a body): send long statements by POST."),
        "visibility": query("visibility", &words(&["public", "private"]), "Only such databases."),
        "state": query("state", &words(&["open", "closed", "merged"]), "Only pull requests in this state."),
        "status": query("status", &words(&["queued", "running", "succeeded", "failed"]), "Only operations in this state."),
        "hook_id": path("hook_id", "The `id` of a hook."),
        "delivery_id": path("delivery_id", "The `id` of a delivery, which the receiver saw as `webhook-id`."),
        "delivery_status": query("status", &words(&["pending", "delivered", "failed"]), "Only deliveries with this status."),
        "type": query("type", &words(&["import", "merge", "sql_write", "fork", "purge", "push", "mirror_sync", "restore", "edit", "dolt_ci"]), "Only operations of this type."),
        "ref": query("ref", &filled, "A branch, tag, commit (40 hex digits, or the first 7 or more) or expression. Default: the default branch."),
        "from": parameter("from", "query", true, &filled, "The earlier ref."),
        "to": parameter("to", "query", true, &filled, "The later ref."),
        "of_table": query("table", &filled, "Only this table."),
        "merge_base": query("merge_base", &words(&["true", "false"]), "If `true`, compare from the merge base of both refs."),
        "limit": query("limit", &count, "Maximum number of rows. Default 1,000; in JSON at most 10,000."),
        "timeout_ms": query("timeout_ms", &count, "Maximum run time of the read in milliseconds. Default 30,000; at most 60,000."),
        "Idempotency-Key": parameter("Idempotency-Key", "header", false, &constraints::idempotency_key(), "1 to 255 printable ASCII characters, optionally in quotes. For 24 hours, repeating the request with the same key has no further effect."),
        "If-None-Match": parameter("If-None-Match", "header", false, &text, "Answer 304 if the resource still has this ETag. Lists and `*` are allowed."),
        "Content-MD5": parameter("Content-MD5", "header", false, &constraints::md5(), "Base64-encoded MD5 of the part. If present, it is verified."),
        "Prefer": parameter("Prefer", "header", false, &text, "`wait=<seconds>`: answer once the operation has ended or the seconds have passed, at most 20. Other preferences are ignored (RFC 7240)."),
        "If-Match": parameter("If-Match", "header", false, &text, "Make the change only if the resource still has this ETag."),
    });
    // A macro of its own, because the one above would nest too deeply.
    all["export_format"] = parameter(
        "format",
        "query",
        true,
        &words(&["sqlite", "sql", "csv", "json", "parquet", "xlsx", "zip"]),
        "The format of the file.",
    );
    all["export_table"] = query(
        "table",
        &filled,
        "The table or view; required for `csv`, `json`, `parquet` and `xlsx`, and refused for the others, which hold all tables.",
    );
    all["safe"] = query(
        "safe",
        &words(&["true", "false"]),
        "If `true`, texts in `csv`, `xlsx` and `zip` that a spreadsheet may take for formulas begin with an apostrophe.",
    );
    // Apart, because the macro nests with each entry.
    all["table"] = path("table", "Name of a table, in any letter case. Send a `/` in the name as `%2F`.");
    all["row_key"] = query("key", &filled, &format!("{ROW_KEY} Without it, all rows."));
    all["needed_row_key"] = parameter("key", "query", true, &filled, ROW_KEY);
    all
}
