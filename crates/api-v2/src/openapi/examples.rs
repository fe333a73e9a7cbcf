//! Values that several examples share. Every operation with a body has an example. A test validates the examples against the
//! schemas.

use branchyard_problem_details::{ErrorCode, Problem};
use serde_json::{Value, json};

/// A result streamed as NDJSON.
pub(super) const NDJSON: &str = "{\"columns\":[{\"name\":\"id\",\"type\":\"INTEGER\",\"is_primary_key\":true,\"source_table\":\"gauges\"}]}\n[4]\n{\"status\":\"success\",\"row_count\":1}\n";
/// A result streamed as CSV.
pub(super) const CSV: &str = "id,level\n4,2.0\n";

pub(crate) const AT: &str = "2026-09-04T12:00:00.000Z";
pub(crate) const LATER: &str = "2026-09-04T12:04:00.000Z";
pub(crate) const HEAD: &str = "3f1c9a0b7d2e4f586a9b0c1d2e3f405162738495";
pub(crate) const NEXT: &str = "a41f0c77e2b95d3086c4d1e9f7021b6538ad90ce";
pub(crate) const DELIVERY: &str = "0199c3a8-0000-7000-8000-000000000002";
pub(crate) const PING: &str = "{\"event_name\":\"ping\",\"repository\":{\"name\":\"rivers\",\"owner\":\"ada\"},\"hook_id\":\"0199c3a8-0000-7000-8000-000000000001\"}";
pub(crate) const OPERATION: &str = "databases/ada/rivers/operations/0199c3a7-1111-7222-8333-444455556666";

/// Returns the example of a schema.
pub(super) fn object(name: &str) -> Value {
    match name {
        "Branch" => branch("feature/x", false),
        "Collaborator" => person("write"),
        "Database" => database(),
        "DeliverySummary" => json!({
            "id": DELIVERY, "event_name": "push", "status": "delivered", "created_at": AT, "attempt_count": 1, "finished_at": LATER,
        }),
        "Delivery" => json!({
            "id": DELIVERY, "event_name": "ping", "status": "failed", "created_at": AT, "attempt_count": 1, "finished_at": LATER,
            "request": {
                "url": "https://ci.example.test/yard", "body": PING,
                "headers": {
                    "content-type": "application/json", "webhook-id": DELIVERY, "webhook-timestamp": "1788523200",
                    "webhook-signature": "v1,lmw5r8BXitG8EHo1znWcr4ix5eirKBa+44eqy2elaWo=",
                },
            },
            "attempts": [{
                "id": "0199c3a8-0000-7000-8000-000000000003", "started_at": AT, "duration_ms": 41, "response_status": 500,
                "response_headers": {"content-type": "text/plain"}, "response_body": "oops",
            }],
        }),
        "DatabaseRef" => json!({"owner": "bob", "name": "rivers"}),
        "OperationRef" => accepted(),
        "Commit" => json!({
            "sha": NEXT, "parents": [HEAD], "message": "Run SQL query: update gauges set level = 2",
            "author": {"name": "Ada", "email": "ada@example.test"}, "committed_at": AT,
        }),
        "RowDiff" => row_diff(),
        "RowRevision" => json!({
            "commit_sha": NEXT, "author": {"name": "Ada", "email": "ada@example.test"}, "committed_at": AT,
            "message": "Correct the level", "pull_number": 7, "change": "modified", "from": {"id": "4", "level": "1.5"},
            "to": {"id": "4", "level": "2.0"},
        }),
        "RowBlame" => {
            let of = |sha: &str| {
                json!({
                    "commit_sha": sha, "author": {"name": "Ada", "email": "ada@example.test"}, "committed_at": AT,
                    "message": "Import gauges",
                })
            };
            let mut level = of(NEXT);
            level["message"] = "Correct the level".into();
            level["from"] = "1.5".into();
            level["pull_number"] = 7.into();
            json!({"columns": {"id": of(HEAD), "level": level}, "complete": true, "commits": 12})
        }
        "TableDiff" => table_diff(),
        "SqlPreview" => json!({"base_sha": HEAD, "rows_affected": 1, "tables": [table_diff()], "rows": [row_diff()]}),
        "TableSchema" => table_schema(),
        "Hook" => hook(),
        "ImportUpload" => json!({
            "token": "up_9f3c", "contents_key": "imports/0199c3a9-0000-7000-8000-000000000001",
            "parts": [{"part_number": 1, "url":
                "https://yard.example/api/v2/uploads/0199c3a9-0000-7000-8000-000000000001/1?expires=1788524400&signature=x0f"}],
            "http_method": "PUT", "headers": {},
        }),
        "Member" => person("member"),
        "Operation" => operation(),
        "Organization" => organization(),
        "Conflict" => json!({
            "table": "gauges", "kind": "row", "primary_key": {"id": "4"}, "base": {"id": "4", "level": "1.5"},
            "ours": {"id": "4", "level": "1.6"}, "theirs": null,
        }),
        "PullSummary" => pull_summary(),
        "Pull" => pull(),
        "WithdrawnPull" => {
            let mut closed = pull_summary();
            closed["state"] = "closed".into();
            closed["closed_at"] = LATER.into();
            closed["from_branch"] = branch_of("bob", "work");
            closed["to_branch"] = branch_of("ada", "main");
            closed
        }
        "PullComment" => comment(),
        "Release" => release(),
        "QueryResult" => result(),
        "Tag" => tag(),
        "Token" => used_token(),
        "UserKey" => used_key(),
        "Mirror" => mirror(),
        "User" => json!({
            "username": "ada", "display_name": "Ada",
            "email_addresses": [{"address": "ada@example.test", "is_primary": true, "is_verified": true}],
        }),
        _ => Value::Null,
    }
}

/// Returns a delivery that waits for its first attempt.
pub(crate) fn pending_delivery() -> Value {
    json!({
        "id": DELIVERY, "event_name": "ping", "status": "pending", "created_at": AT, "attempt_count": 0, "next_attempt_at": AT,
        "request": {"url": "https://ci.example.test/yard", "headers": {}, "body": PING}, "attempts": [],
    })
}

pub(crate) fn new_token() -> Value {
    json!({
        "id": "0199c3a2-5b7e-7c41-9d1f-2f4f6a8b9c0d", "name": "ci", "created_at": AT,
        "expires_at": "2026-12-03T12:00:00.000Z", "expired": false,
        "token": "hsat.v1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA3mhf8X",
    })
}

pub(crate) fn used_token() -> Value {
    json!({
        "id": "0199c3a2-5b7e-7c41-9d1f-2f4f6a8b9c0d", "name": "ci", "created_at": AT,
        "expires_at": "2026-12-03T12:00:00.000Z", "expired": false, "last_used_at": LATER,
        "last_used_from": {"address": "203.0.113.7", "user_agent": "curl/8.5.0"},
    })
}

/// Returns a key of a client.
fn used_key() -> Value {
    json!({
        "id": "0199c3a2-5b7e-7c41-9d1f-2f4f6a8b9c0d", "name": "laptop",
        "kid": "7ku1cgd7ujkcri5u4smmrsrpcp3ejsmgc9t7o3dkdbars",
        "public_key": "0eggffvjpo8bs7bgrkceeiu0j5ju9lhgjeigqnotri3684il66s0", "created_at": AT, "last_used_at": LATER,
    })
}

/// Returns a mirror whose source was read once.
fn mirror() -> Value {
    json!({
        "url": "https://yard.example/hydro/rivers", "interval_seconds": 3_600,
        "public_key": "0eggffvjpo8bs7bgrkceeiu0j5ju9lhgjeigqnotri3684il66s0",
        "kid": "7ku1cgd7ujkcri5u4smmrsrpcp3ejsmgc9t7o3dkdbars", "last_sync_at": LATER,
    })
}

pub(crate) fn organization() -> Value {
    json!({"name": "hydro", "display_name": "Hydro Lab", "base_role": "write", "created_at": AT, "viewer_role": "owner"})
}

/// Returns a member or collaborator.
pub(crate) fn person(role: &str) -> Value {
    json!({"username": "bob", "role": role, "added_at": AT})
}

pub(crate) fn public_database() -> Value {
    let mut database = database();
    database["visibility"] = "public".into();
    database
}

pub(crate) fn hook() -> Value {
    json!({
        "id": "0199c3a8-0000-7000-8000-000000000001", "url": "https://ci.example.test/yard", "events": ["on_push", "on_branch"],
        "active": true, "created_at": AT, "updated_at": AT,
        "last_delivery": {"id": DELIVERY, "status": "delivered", "finished_at": LATER},
    })
}

pub(crate) fn fresh_hook() -> Value {
    json!({
        "id": "0199c3a8-0000-7000-8000-000000000001", "url": "https://ci.example.test/yard", "events": ["on_push", "on_branch"],
        "active": true, "created_at": AT, "updated_at": AT, "secret": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    })
}

pub(crate) fn database() -> Value {
    json!({
        "owner": "ada", "name": "rivers", "description": "River gauges", "visibility": "private", "fork_network_count": 0,
        "star_count": 0, "size_bytes": 4096, "garbage_bytes": 0, "anonymous_sql": true, "last_write_at": AT, "default_branch": "main", "created_at": AT,
        "viewer_role": "admin",
    })
}

pub(crate) fn branch(name: &str, is_default: bool) -> Value {
    json!({"name": name, "head_commit_sha": HEAD, "last_updated_at": AT, "is_default": is_default})
}

pub(crate) fn tag() -> Value {
    json!({"name": "v1", "commit_sha": HEAD, "message": "First cut", "tagged_at": AT})
}

pub(crate) fn release() -> Value {
    json!({"tag": "v1", "title": "Version 1", "commit_sha": HEAD, "created_at": AT, "updated_at": AT})
}

pub(crate) fn branch_of(owner: &str, name: &str) -> Value {
    json!({"database": {"owner": owner, "name": "rivers"}, "branch_name": name})
}

pub(crate) fn pull_summary() -> Value {
    json!({"pull_number": 7, "title": "Fix gauges", "state": "open", "created_at": AT, "updated_at": AT, "creator": "bob"})
}

pub(crate) fn pull() -> Value {
    let mut pull = pull_summary();
    pull["from_branch"] = branch_of("bob", "work");
    pull["to_branch"] = branch_of("ada", "main");
    pull["from_commit_sha"] = NEXT.into();
    pull["to_commit_sha"] = HEAD.into();
    pull
}

pub(crate) fn comment() -> Value {
    json!({
        "comment_id": "0199c3a6-2f00-7b3c-a1d4-0a1b2c3d4e5f", "author": "ada", "body": "Looks right.", "created_at": AT,
        "updated_at": AT,
    })
}

pub(crate) fn row_diff() -> Value {
    json!({
        "table": "gauges", "change": "modified", "primary_key": {"id": "4"}, "from": {"id": "4", "level": "1.5"},
        "to": {"id": "4", "level": "2.0"},
    })
}

pub(crate) fn table_diff() -> Value {
    json!({
        "table": "gauges", "change": "modified", "schema_changed": false, "rows_added": 0, "rows_removed": 0,
        "rows_modified": 1,
    })
}

pub(crate) fn result() -> Value {
    let column = |name: &str, kind: &str, key: bool| json!({"name": name, "type": kind, "is_primary_key": key, "source_table": "people"});
    json!({
        "columns": [column("id", "INTEGER", true), column("name", "TEXT", false)], "rows": [["1", "Alice"], ["2", null]],
        "status": "success", "warnings": [],
    })
}

pub(crate) fn accepted() -> Value {
    let href = format!("https://yard.example/api/v2/operations/{}", OPERATION.replace('/', "%2F"));
    json!({"id": OPERATION, "href": href})
}

pub(crate) fn operation() -> Value {
    json!({
        "id": OPERATION, "type": "sql_write", "status": "succeeded", "created_at": AT, "started_at": AT, "finished_at": LATER,
        "created_by": "ada", "cancelable": false, "result": {"commit_sha": NEXT},
    })
}

/// Returns a problem document with this code.
pub(super) fn problem(code: ErrorCode) -> Value {
    let detail = code.explanation().meaning.split(['.', ';']).next().unwrap_or_default();
    let problem = Problem::new(code, detail);
    let document = problem.document("https://yard.example/docs/errors", "/api/v2/user", "req_0199c3a4");
    json!(document)
}

pub(crate) fn table_schema() -> Value {
    json!({
        "name": "gauges", "kind": "table",
        "columns": [
            {"name": "id", "type": "INTEGER", "nullable": false, "is_primary_key": true},
            {"name": "level", "type": "REAL", "nullable": true, "is_primary_key": false},
        ],
        "primary_key": ["id"], "indexes": [], "foreign_keys": [], "triggers": [],
        "create_statement": "CREATE TABLE gauges (id INTEGER NOT NULL PRIMARY KEY, level REAL)",
    })
}
