//! What the types of fields cannot say: lengths, patterns, meanings.

use serde_json::{Value, json};

const HASH: &str = "^[0-9a-f]{40}$";
const HASH_IN: &str = "^[0-9A-Fa-f]{40}$";
/// Base64 of 16 bytes.
const MD5: &str = "^[A-Za-z0-9+/]{21}[AQgw]==$";
/// In no text of a request.
const NO_NUL: &str = r"^[^\u0000]*$";
const NOT_BLANK: &str = r"^[^\u0000]*[^\u0000\s][^\u0000]*$";
/// git's rules for the name of a ref, and ours: no option of a command, not `@` or `HEAD`, no commit hash.
const REF: &str = r"^(?!-|/|\.|@$|HEAD$|[0-9A-Fa-f]{40}$)(?!.*(\.\.|@\{|//|/\.|\.lock/|\.lock$|/$|\.$))[^\u0000-\u0020\u007f-\u009f~^:?*\[\\]+$";
const OWNER: &str = "^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?$";

/// What is sent, not answered.
pub(super) fn is_request(schema: &str) -> bool {
    schema.ends_with("Request") || matches!(schema, "RevisionRef" | "CompletedPart")
}

/// Adds what is known of a whole object.
pub(super) fn add_to_object(name: &str, schema: &mut Value) {
    if name.starts_with("Update") && is_request(name) {
        schema["minProperties"] = 1.into();
    }
    if name == "RevisionRef" {
        let only = |one: &str, other: &str| {
            let mut of = json!({"required": [one], "properties": {}});
            of["properties"][one] = json!({"type": "string"});
            of["properties"][other] = json!({"type": "null"});
            of
        };
        schema["oneOf"] = json!([only("branch", "commit"), only("commit", "branch")]);
    }
}

/// Adds what is known of a field; what the type says already stays.
pub(super) fn add(schema: &str, field: &str, property: &mut Value) {
    let request = is_request(schema);
    for known in [by_name(field, request), of_field(schema, field)].into_iter().flatten() {
        let Value::Object(known) = known else { continue };
        // Beside a reference a description may stand, but no constraint.
        let referred = property.get("$ref").is_some();
        for (name, value) in known {
            if property.get(&name).is_none() && (!referred || name == "description") {
                property[name] = value;
            }
        }
    }
    let is_text = property["type"] == "string" || property["type"].as_array().is_some_and(|of| of[0] == "string");
    if request && is_text && ["pattern", "enum"].iter().all(|known| property.get(known).is_none()) {
        property["pattern"] = NO_NUL.into();
    }
}

/// A text in a query or a path; `filled`: not empty.
pub(super) fn text(filled: bool) -> Value {
    json!({"type": "string", "minLength": u8::from(filled), "pattern": NO_NUL})
}

pub(super) fn idempotency_key() -> Value {
    let pattern = r#"^(?!""$)([!-~]([ -~]{0,253}[!-~])?|"[ -~]{1,255}")$"#;
    json!({"type": "string", "minLength": 1, "maxLength": 257, "pattern": pattern})
}

pub(super) fn md5() -> Value {
    json!({"type": "string", "pattern": MD5})
}

pub(super) fn owner() -> Value {
    json!({"type": "string", "minLength": 3, "maxLength": 32, "pattern": OWNER})
}

pub(super) fn database() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 64, "pattern": OWNER})
}

/// Fields that mean the same wherever they are.
fn by_name(field: &str, request: bool) -> Option<Value> {
    Some(match field {
        "owner" => json!({"minLength": 3, "maxLength": 32, "pattern": OWNER, "description": "User or organization."}),
        "commit_sha" | "head_commit_sha" | "merge_commit_sha" | "sha" => {
            json!({"pattern": if request { HASH_IN } else { HASH }, "description": "40 hex digits."})
        }
        "parents" => json!({"items": {"type": "string", "pattern": HASH}}),
        "title" if request => {
            json!({"minLength": 1, "maxLength": 256, "pattern": NOT_BLANK, "description": "Not blank."})
        }
        "page_token" | "next_page_token" => json!({"maxLength": 4096}),
        "pull_number" | "pull_id" => json!({"minimum": 1}),
        "truncated_columns" => json!({"description": "Columns whose cells were cut at 64 KiB."}),
        _ => return None,
    })
}

fn of_field(schema: &str, field: &str) -> Option<Value> {
    let new_ref = |text: &str| json!({"minLength": 1, "maxLength": 200, "pattern": REF, "description": text});
    let long = json!({"maxLength": 65_536, "description": "At most 65,536 bytes."});
    Some(match (schema, field) {
        ("CreateDatabaseRequest" | "Database" | "DatabaseRef", "name") => {
            json!({"minLength": 1, "maxLength": 64, "pattern": OWNER, "description": "Unique per owner, in any letter case."})
        }
        ("Organization" | "CreateOrganizationRequest", "name") => {
            json!({"minLength": 3, "maxLength": 32, "pattern": OWNER, "description": "Unique over users and organizations, in any letter case."})
        }
        ("CreateUserTokenRequest", "name") => {
            json!({"minLength": 1, "maxLength": 100, "pattern": NOT_BLANK, "description": "Not blank."})
        }
        ("Token", "name") => json!({"minLength": 1, "maxLength": 100}),
        ("Token", "token") => {
            json!({"pattern": "^hsat\\.v1\\.[0-9A-Za-z]{49}$", "description": "Only in the answer that makes it."})
        }
        ("Token", "expired") => json!({"description": "Expired tokens stay listed until they are deleted."}),
        ("UpdateDatabaseRequest" | "CreateOrganizationRequest" | "UpdateOrganizationRequest", "description") => {
            json!({"maxLength": 4096, "description": "At most 4,096 bytes."})
        }
        ("UpdateReleaseRequest", "description") => long,
        ("CreateDatabaseRequest", "description") => json!({"maxLength": 4096, "description": "At most 4,096 bytes."}),
        ("CreateDatabaseRequest", "default_branch") => {
            json!({"minLength": 1, "maxLength": 200, "pattern": REF, "default": "main"})
        }
        ("CreateBranchRequest" | "CreateTagRequest", "name") => {
            new_ref("At most 200 bytes, under git's rules for refs.")
        }
        ("BranchRef", "branch_name") => json!({"minLength": 1, "maxLength": 200}),
        ("SqlWriteRequest", "from_branch") => {
            json!({"minLength": 1, "description": "An existing branch."})
        }
        ("SqlWriteRequest", "to_branch") => {
            new_ref("Created from the head of `from_branch` when it is missing; may be the same.")
        }
        ("RevisionRef", "commit") => json!({"pattern": HASH_IN}),
        ("RevisionRef", "branch") => json!({"minLength": 1, "description": "An existing branch."}),
        ("CreateTagRequest" | "MergePullRequest", "message")
        | ("CreateReleaseRequest" | "CreatePullRequest" | "UpdatePullRequest", "description")
        | ("SqlWriteRequest" | "CreateImportRequest", "commit_message") => long,
        ("CreatePullCommentRequest", "body") => {
            json!({"minLength": 1, "maxLength": 65_536, "pattern": NOT_BLANK, "description": "Not blank; at most 65,536 bytes."})
        }
        ("CreateReleaseRequest", "tag") => new_ref("The tag the release is of."),
        ("CreateReleaseRequest", "create_tag_if_not_exists") => json!({"default": false}),
        ("CreateForkRequest", "owner") => json!({"description": "Who gets the fork."}),
        ("SqlReadRequest" | "SqlWriteRequest", "q") => {
            json!({"minLength": 1, "maxLength": 1_048_576, "description": "SQL; at most 1 MiB."})
        }
        ("SqlReadRequest", "ref") => {
            json!({"minLength": 1, "description": "A branch, tag, commit or expression; absent = the default branch."})
        }
        ("SqlReadRequest", "limit") => {
            json!({"maximum": i64::MAX, "description": "Rows at most; 1,000 when absent, never more than 10,000 in JSON."})
        }
        ("SqlReadRequest", "timeout_ms") => {
            json!({"maximum": i64::MAX, "description": "Milliseconds; 30,000 when absent, never more than 60,000."})
        }
        ("CreateImportUploadRequest", "content_length") => {
            json!({"maximum": 1_i64 << 30, "description": "Bytes of the file."})
        }
        ("CreateImportUploadRequest", "num_parts") => json!({"description": "At most one part per byte."}),
        ("CreateImportRequest", "branch_name") => json!({"minLength": 1, "description": "An existing branch."}),
        ("CreateImportRequest", "table_name") => {
            json!({"maxLength": 128, "description": "Not beginning with `sqlite_` or `dolt_`; may be empty for `sql`."})
        }
        ("CreateImportRequest", "file_name") => json!({"minLength": 1, "maxLength": 255, "pattern": r"^[^/\u0000]*$"}),
        ("CreateImportRequest", "file_size") => {
            json!({"minimum": 1, "description": "Equal to `content_length` of the session."})
        }
        ("CreateImportRequest", "token" | "contents_key") => json!({"description": "As the session gave it."}),
        ("CreateImportRequest", "completed_parts") => {
            json!({"minItems": 1, "maxItems": 1_000, "description": "Each part once, in any order."})
        }
        ("CreateImportRequest", "file_parts_md5") => {
            json!({"pattern": MD5, "description": "Base64 of the MD5 of the parts' MD5s, each as base64 text, in order."})
        }
        ("CreateImportRequest", "primary_keys") => json!({"description": "Key columns; may be empty, never null."}),
        ("CreateImportRequest", "pull_request_branch_name") => {
            new_ref("The data lands on this branch, and a pull request to `branch_name` is opened.")
        }
        ("CreateImportRequest", "column_map") => json!({"description": "New names for columns of the file."}),
        ("CompletedPart", "etag") => {
            json!({"minLength": 1, "description": "`ETag` of the part, with or without its quotes."})
        }
        ("OperationRef", "href") => json!({"format": "uri", "description": "Address to poll."}),
        ("OperationRef" | "Operation", "id") => json!({"description": "Opaque."}),
        ("Operation", "created_by") => json!({"description": "User name."}),
        ("Operation", "cancelable") => json!({"description": "True exactly while `queued`."}),
        ("OperationError", "status") => json!({"minimum": 400, "maximum": 599}),
        ("OperationResult", "commit_sha") => json!({"description": "Head of the branch that was written to."}),
        ("OperationResult", "pull_id") => json!({"description": "Number of the pull request."}),
        ("ImportUpload", "token") => json!({"description": "Secret; good for one import."}),
        ("ImportUpload", "http_method") => json!({"const": "PUT"}),
        ("ImportUpload", "headers") => json!({"description": "To send with each part."}),
        ("ImportUploadPart", "url") => {
            json!({"format": "uri", "description": "The credential for this part: a secret."})
        }
        ("QueryResult", "rows") => json!({"description": "Cells as text or null; a BLOB is the text `\"<binary>\"`."}),
        ("QueryResult", "message") => json!({"description": "Present unless `status` is `success`."}),
        ("Hook" | "CreateHookRequest" | "UpdateHookRequest", "url") => {
            json!({"minLength": 1, "maxLength": 2048, "format": "uri", "description": "`https`, or `http` where the operator opened a network; no user name, no fragment; kept in its normalized form."})
        }
        ("Hook" | "CreateHookRequest" | "UpdateHookRequest", "events") => json!({"minItems": 1, "uniqueItems": true}),
        ("Hook", "secret") => {
            json!({"pattern": "^whsec_[A-Za-z0-9+/]{43}=$", "description": "Only in the answers that make it."})
        }
        ("Delivery" | "DeliverySummary", "attempt_count") => json!({"description": "Over all runs."}),
        ("DeliveryRequest", "headers") => json!({"description": "Empty before the first attempt."}),
        ("DeliveryAttempt", "id") => json!({"description": "The `X-Branchyard-Delivery` its receiver saw."}),
        ("DeliveryAttempt", "response_headers") => json!({"description": "The first 8 KiB."}),
        ("DeliveryAttempt", "response_body") => {
            json!({"description": "The first 16 KiB; what is not UTF-8 is replaced."})
        }
        ("TableDiff", "rows_added" | "rows_removed" | "rows_modified") => {
            json!({"description": "Absent, all three, when counting takes longer than 30 s."})
        }
        ("TableDiff", "objects") => {
            json!({"description": "Indexes and triggers of the table that differ, and the view itself; absent when none does. A table with only such changes is listed as `modified`."})
        }
        ("ObjectDiff", "from" | "to") => {
            json!({"description": "The statement; absent on the side without the object, and where the statements of the table exceed 2,097,152 bytes."})
        }
        ("Pull", "brings") => {
            json!({"uniqueItems": true, "description": "Kinds of objects with code of their own that the pull adds or changes; absent while the source's commits are being fetched."})
        }
        _ => return None,
    })
}
