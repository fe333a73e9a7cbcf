//! Rules that the Rust types of fields cannot express: lengths, patterns and descriptions.

use branchyard_http_common::{HASH_PATTERN, NAME_PATTERN, NO_NUL_PATTERN};
use serde_json::{Value, json};

/// Pattern of an MD5 digest: 16 bytes in base64.
pub(crate) const MD5_PATTERN: &str = "^[A-Za-z0-9+/]{21}[AQgw]==$";

/// Adds the rules of a field to its schema. Rules that the schema already has are kept.
pub(super) fn add(schema: &str, field: &str, property: &mut Value) {
    for known in [by_name(field), of_field(schema, field)].into_iter().flatten() {
        let Value::Object(known) = known else { continue };
        // Next to a `$ref`, only a description is added.
        let referred = property.get("$ref").is_some();
        for (name, value) in known {
            if property.get(&name).is_none() && (!referred || name == "description") {
                property[name] = value;
            }
        }
    }
}

/// Returns the schema of a text in a query or path. If `filled` is `true`, the text must not be empty.
pub(super) fn text(filled: bool) -> Value {
    json!({"type": "string", "minLength": u8::from(filled), "pattern": NO_NUL_PATTERN})
}

pub(super) fn idempotency_key() -> Value {
    let pattern = r#"^(?!""$)([!-~]([ -~]{0,253}[!-~])?|"[ -~]{1,255}")$"#;
    json!({"type": "string", "minLength": 1, "maxLength": 257, "pattern": pattern})
}

pub(super) fn md5() -> Value {
    json!({"type": "string", "pattern": MD5_PATTERN})
}

pub(super) fn owner() -> Value {
    json!({"type": "string", "minLength": 3, "maxLength": 32, "pattern": NAME_PATTERN})
}

pub(super) fn database() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 64, "pattern": NAME_PATTERN})
}

/// Returns the rules of fields whose meaning is the same in all schemas.
fn by_name(field: &str) -> Option<Value> {
    Some(match field {
        "owner" => {
            json!({"minLength": 3, "maxLength": 32, "pattern": NAME_PATTERN, "description": "User or organization."})
        }
        "commit_sha" | "head_commit_sha" | "merge_commit_sha" | "sha" => {
            json!({"pattern": HASH_PATTERN, "description": "40 hex digits."})
        }
        "parents" => json!({"items": {"type": "string", "pattern": HASH_PATTERN}}),
        "page_token" | "next_page_token" => json!({"maxLength": 4096}),
        "pull_number" | "pull_id" => json!({"minimum": 1}),
        "truncated_columns" => json!({"description": "Columns whose cells were truncated at 64 KiB."}),
        _ => return None,
    })
}

fn of_field(schema: &str, field: &str) -> Option<Value> {
    Some(match (schema, field) {
        ("Database" | "DatabaseRef", "name") => {
            json!({"minLength": 1, "maxLength": 64, "pattern": NAME_PATTERN, "description": "Unique per owner, regardless of letter case."})
        }
        ("Organization", "name") => {
            json!({"minLength": 3, "maxLength": 32, "pattern": NAME_PATTERN, "description": "Unique among users and organizations, regardless of letter case."})
        }
        ("Token", "name") => json!({"minLength": 1, "maxLength": 100}),
        ("UserKey", "name") => json!({"minLength": 1, "maxLength": 100}),
        ("UserKey" | "Mirror", "kid") => json!({"pattern": "^[0-9a-v]{45}$"}),
        ("UserKey" | "Mirror", "public_key") => json!({"pattern": "^[0-9a-v]{52}$"}),
        ("Token", "token") => {
            json!({"pattern": "^hsat\\.v1\\.[0-9A-Za-z]{49}$", "description": "Only in the answer that makes it."})
        }
        ("Token", "expired") => json!({"description": "Expired tokens stay listed until they are deleted."}),
        ("BranchRef", "branch_name") => json!({"minLength": 1, "maxLength": 200}),
        ("OperationRef", "href") => json!({"format": "uri", "description": "URL to poll."}),
        ("OperationRef" | "Operation", "id") => json!({"description": "Opaque."}),
        ("Operation", "created_by") => json!({"description": "User name."}),
        ("Operation", "cancelable") => json!({"description": "`true` while `queued`, and otherwise `false`."}),
        ("OperationError", "status") => json!({"minimum": 400, "maximum": 599}),
        ("OperationResult", "commit_sha") => json!({"description": "Head of the branch that was written to."}),
        ("OperationResult", "pull_id") => json!({"description": "Number of the pull request."}),
        ("ImportUpload", "token") => json!({"description": "A secret, valid for one import."}),
        ("ImportUpload", "http_method") => json!({"const": "PUT"}),
        ("ImportUpload", "headers") => json!({"description": "Headers to send with each part."}),
        ("ImportUploadPart", "url") => {
            json!({"format": "uri", "description": "The credential for this part, a secret."})
        }
        ("QueryResult", "rows") => {
            json!({"description": "Cells are texts or null. A BLOB is the text `\"<binary>\"`."})
        }
        ("QueryResult", "message") => json!({"description": "Present unless `status` is `success`."}),
        ("Hook", "url") => {
            json!({"minLength": 1, "maxLength": 2048, "pattern": "^https?://", "description": "An `https` URL, or an `http` URL if the operator allows its network, parsed by the WHATWG URL standard. It has no user name and no fragment, and is stored in normalized form."})
        }
        ("Hook", "events") => json!({"minItems": 1, "uniqueItems": true}),
        ("Hook", "secret") => {
            json!({"pattern": "^whsec_[A-Za-z0-9+/]{43}=$", "description": "Only in the answers that create it."})
        }
        ("Delivery" | "DeliverySummary", "attempt_count") => json!({"description": "Attempts of all runs."}),
        ("DeliveryRequest", "url" | "body") => json!({"pattern": NO_NUL_PATTERN}),
        ("DeliveryRequest", "headers") => json!({"description": "Empty before the first attempt."}),
        ("DeliveryAttempt", "id") => json!({"description": "The `X-Branchyard-Delivery` that the receiver saw."}),
        ("DeliveryAttempt", "response_headers") => json!({"description": "The first 8 KiB."}),
        ("DeliveryAttempt", "response_body") => {
            json!({"description": "The first 16 KiB. Bytes that are not UTF-8 are replaced."})
        }
        ("TableDiff", "rows_added" | "rows_removed" | "rows_modified") => {
            json!({"description": "All three counts are absent if counting takes longer than 30 s."})
        }
        ("SqlPreview", "rows") => {
            json!({"description": "The first 100 changed rows of each table, and about 1 MiB in all, by table and primary key."})
        }
        ("TableDiff", "objects") => {
            json!({"description": "Changed indexes and triggers of the table, and the view itself. Absent if there are none. A table with only such changes is listed as `modified`."})
        }
        ("ObjectDiff", "from" | "to") => {
            json!({"description": "The statement. Absent on the side without the object, and if the statements of the table exceed 2,097,152 bytes."})
        }
        ("Pull", "brings") => {
            json!({"uniqueItems": true, "description": "Kinds of objects with code that the pull request adds or changes. Absent while the commits of the source are being fetched."})
        }
        _ => return None,
    })
}
