//! Bodies of requests and answers, by operation id. Every operation with a body has one; a test checks them against the schemas.

use branchyard_problem_details::{ErrorCode, Problem};
use serde_json::{Value, json};

/// What goes in and what comes out.
pub(super) struct Example {
    pub(super) request: Option<Value>,
    pub(super) success: Option<Value>,
}

/// A streamed result.
pub(super) const NDJSON: &str = "{\"columns\":[{\"name\":\"id\",\"type\":\"INTEGER\",\"is_primary_key\":true,\"source_table\":\"gauges\"}]}\n[4]\n{\"status\":\"success\",\"row_count\":1}\n";
/// The same as CSV.
pub(super) const CSV: &str = "id,level\n4,2.0\n";

const AT: &str = "2026-09-04T12:00:00.000Z";
const LATER: &str = "2026-09-04T12:04:00.000Z";
const HEAD: &str = "3f1c9a0b7d2e4f586a9b0c1d2e3f405162738495";
const NEXT: &str = "a41f0c77e2b95d3086c4d1e9f7021b6538ad90ce";
const DELIVERY: &str = "0199c3a8-0000-7000-8000-000000000002";
const PING: &str = "{\"event_name\":\"ping\",\"repository\":{\"name\":\"rivers\",\"owner\":\"ada\"},\"hook_id\":\"0199c3a8-0000-7000-8000-000000000001\"}";
const OPERATION: &str = "databases/ada/rivers/operations/0199c3a7-1111-7222-8333-444455556666";

fn one(data: Value) -> Option<Value> {
    Some(json!({"data": data}))
}

fn list(item: Value) -> Option<Value> {
    Some(json!({"data": [item], "meta": {}}))
}

fn shown(success: Option<Value>) -> Example {
    Example { request: None, success }
}

fn asked(request: Value, success: Option<Value>) -> Example {
    Example { request: Some(request), success }
}

/// The example of an operation.
pub(super) fn of(id: &str) -> Option<Example> {
    Some(match id {
        "getOpenapiDocument" => shown(Some(json!({"openapi": "3.1.0"}))),
        "getCurrentUser" => shown(one(json!({
            "username": "ada", "display_name": "Ada",
            "email_addresses": [{"address": "ada@example.test", "is_primary": true, "is_verified": true}],
        }))),
        "listDatabases" => shown(Some(json!({"data": [database()], "meta": {"next_page_token": "Yy1kZ0x"}}))),
        "createDatabase" => asked(
            json!({"owner": "ada", "name": "rivers", "visibility": "private", "description": "River gauges"}),
            one(database()),
        ),
        "getDatabase" | "deleteDatabase" => shown(one(database())),
        "updateDatabase" => {
            asked(json!({"visibility": "public", "description": "River gauges"}), one(public_database()))
        }
        "listBranches" => shown(list(branch("main", true))),
        "createBranch" => {
            asked(json!({"name": "feature/x", "from": {"branch": "main"}}), one(branch("feature/x", false)))
        }
        "getBranch" | "deleteBranch" => shown(one(branch("feature/x", false))),
        "listTags" => shown(list(tag())),
        "createTag" => asked(json!({"name": "v1", "from": {"commit": HEAD}, "message": "First cut"}), one(tag())),
        "getTag" | "deleteTag" => shown(one(tag())),
        "listForks" => shown(list(json!({"owner": "bob", "name": "rivers"}))),
        "createFork" => asked(json!({"owner": "bob"}), one(accepted())),
        "listReleases" => shown(list(release())),
        "createRelease" => asked(
            json!({"tag": "v1", "title": "Version 1", "commit_sha": HEAD, "create_tag_if_not_exists": true}),
            one(release()),
        ),
        "getRelease" | "deleteRelease" => shown(one(release())),
        "updateRelease" => asked(json!({"title": "Version 1"}), one(release())),
        _ => {
            return {
                of_people(id)
                    .or_else(|| of_hooks(id))
                    .or_else(|| of_pulls(id))
                    .or_else(|| of_reads(id))
                    .or_else(|| of_work(id))
            };
        }
    })
}

fn of_people(id: &str) -> Option<Example> {
    Some(match id {
        "listUserTokens" => shown(list(used_token())),
        "createUserToken" => asked(json!({"name": "ci", "expires_in": "90d"}), one(new_token())),
        "deleteUserToken" => shown(one(used_token())),
        "listUserOrganizations" => shown(list(organization())),
        "createOrganization" => {
            asked(json!({"name": "hydro", "display_name": "Hydro Lab", "base_role": "write"}), one(organization()))
        }
        "getOrganization" | "deleteOrganization" => shown(one(organization())),
        "updateOrganization" => asked(json!({"display_name": "Hydro Lab"}), one(organization())),
        "listOrganizationMembers" => shown(list(person("member"))),
        "putOrganizationMember" => asked(json!({"role": "member"}), one(person("member"))),
        "removeOrganizationMember" => shown(one(person("member"))),
        "listCollaborators" => shown(list(person("write"))),
        "putCollaborator" => asked(json!({"role": "write"}), one(person("write"))),
        "removeCollaborator" => shown(one(person("write"))),
        _ => return None,
    })
}

fn new_token() -> Value {
    json!({
        "id": "0199c3a2-5b7e-7c41-9d1f-2f4f6a8b9c0d", "name": "ci", "created_at": AT,
        "expires_at": "2026-12-03T12:00:00.000Z", "expired": false,
        "token": "hsat.v1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA3mhf8X",
    })
}

fn used_token() -> Value {
    json!({
        "id": "0199c3a2-5b7e-7c41-9d1f-2f4f6a8b9c0d", "name": "ci", "created_at": AT,
        "expires_at": "2026-12-03T12:00:00.000Z", "expired": false, "last_used_at": LATER,
        "last_used_from": {"address": "203.0.113.7", "user_agent": "curl/8.5.0"},
    })
}

fn organization() -> Value {
    json!({"name": "hydro", "display_name": "Hydro Lab", "base_role": "write", "created_at": AT, "viewer_role": "owner"})
}

/// A member or collaborator.
fn person(role: &str) -> Value {
    json!({"username": "bob", "role": role, "added_at": AT})
}

fn public_database() -> Value {
    let mut database = database();
    database["visibility"] = "public".into();
    database
}

fn of_hooks(id: &str) -> Option<Example> {
    Some(match id {
        "listHooks" => shown(list(hook())),
        "createHook" => {
            asked(json!({"url": "https://ci.example.test/yard", "events": ["on_push", "on_branch"]}), one(fresh_hook()))
        }
        "getHook" | "deleteHook" => shown(one(hook())),
        "updateHook" => {
            let mut off = hook();
            off["active"] = false.into();
            asked(json!({"active": false}), one(off))
        }
        "rotateHookSecret" => shown(one(fresh_hook())),
        "pingHook" | "redeliver" => shown(one(json!({
            "id": DELIVERY, "event_name": "ping", "status": "pending", "created_at": AT, "attempt_count": 0, "next_attempt_at": AT,
            "request": {"url": "https://ci.example.test/yard", "headers": {}, "body": PING}, "attempts": [],
        }))),
        "listHookDeliveries" => shown(list(json!({
            "id": DELIVERY, "event_name": "push", "status": "delivered", "created_at": AT, "attempt_count": 1, "finished_at": LATER,
        }))),
        "getHookDelivery" => shown(one(json!({
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
        }))),
        _ => return None,
    })
}

fn hook() -> Value {
    json!({
        "id": "0199c3a8-0000-7000-8000-000000000001", "url": "https://ci.example.test/yard", "events": ["on_push", "on_branch"],
        "active": true, "created_at": AT, "updated_at": AT,
        "last_delivery": {"id": DELIVERY, "status": "delivered", "finished_at": LATER},
    })
}

fn fresh_hook() -> Value {
    json!({
        "id": "0199c3a8-0000-7000-8000-000000000001", "url": "https://ci.example.test/yard", "events": ["on_push", "on_branch"],
        "active": true, "created_at": AT, "updated_at": AT, "secret": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    })
}

fn of_pulls(id: &str) -> Option<Example> {
    Some(match id {
        "listPulls" => shown(list(pull_summary())),
        "createPull" => asked(
            json!({"title": "Fix gauges", "from_branch": branch_of("bob", "work"), "to_branch": branch_of("ada", "main")}),
            one(pull()),
        ),
        "getPull" => {
            let mut brings = pull();
            brings["brings"] = json!(["trigger"]);
            shown(one(brings))
        }
        "updatePull" => {
            let mut closed = pull();
            closed["state"] = "closed".into();
            closed["closed_at"] = LATER.into();
            closed["brings"] = json!([]);
            asked(json!({"state": "closed"}), one(closed))
        }
        "listPullComments" => shown(list(comment())),
        "createPullComment" => asked(json!({"body": "Looks right."}), one(comment())),
        "withdrawPull" => {
            let mut closed = pull_summary();
            closed["state"] = "closed".into();
            closed["closed_at"] = LATER.into();
            closed["from_branch"] = branch_of("bob", "work");
            closed["to_branch"] = branch_of("ada", "main");
            shown(one(closed))
        }
        "mergePull" => asked(json!({"resolve": {"gauges": "theirs"}}), one(accepted())),
        "listPullDiff" => shown(list(row_diff())),
        "listPullDiffTables" => shown(list(table_diff())),
        "listPullConflicts" => shown(list(json!({
            "table": "gauges", "kind": "row", "primary_key": {"id": "4"}, "base": {"id": "4", "level": "1.5"},
            "ours": {"id": "4", "level": "1.6"}, "theirs": null,
        }))),
        _ => return None,
    })
}

fn of_reads(id: &str) -> Option<Example> {
    Some(match id {
        "listCommits" => shown(list(json!({
            "sha": NEXT, "parents": [HEAD], "message": "Run SQL query: update gauges set level = 2",
            "author": {"name": "Ada", "email": "ada@example.test"}, "committed_at": AT,
        }))),
        "listDiff" => shown(list(row_diff())),
        "listDiffTables" => shown(list(table_diff())),
        "listSchema" => shown(list(json!({
            "name": "gauges", "kind": "table",
            "columns": [
                {"name": "id", "type": "INTEGER", "nullable": false, "is_primary_key": true},
                {"name": "level", "type": "REAL", "nullable": true, "is_primary_key": false},
            ],
            "primary_key": ["id"], "indexes": [], "foreign_keys": [], "triggers": [],
            "create_statement": "CREATE TABLE gauges (id INTEGER NOT NULL PRIMARY KEY, level REAL)",
        }))),
        "runSqlReadQuery" => shown(one(result())),
        "runSqlReadQueryPost" => asked(
            json!({"ref": "main", "q": "select id, name from people", "limit": 10, "timeout_ms": 2_500}),
            one(result()),
        ),
        _ => return None,
    })
}

fn of_work(id: &str) -> Option<Example> {
    Some(match id {
        "runSqlWriteQuery" => asked(
            json!({"from_branch": "main", "to_branch": "feature/fix", "q": "update gauges set level = 2 where id = 4"}),
            one(accepted()),
        ),
        "createImportUpload" => asked(
            json!({"content_length": 16, "num_parts": 1, "file_type": "csv"}),
            one(json!({
                "token": "up_9f3c", "contents_key": "imports/0199c3a9-0000-7000-8000-000000000001",
                "parts": [{"part_number": 1, "url":
                    "https://yard.example/api/v2/uploads/0199c3a9-0000-7000-8000-000000000001/1?expires=1788524400&signature=x0f"}],
                "http_method": "PUT", "headers": {},
            })),
        ),
        "createImport" => asked(
            json!({
                "branch_name": "main", "table_name": "people", "file_name": "people.csv", "file_size": 16, "file_type": "csv",
                "import_operation": "create", "token": "up_9f3c", "contents_key": "imports/0199c3a9-0000-7000-8000-000000000001",
                "completed_parts": [{"part_number": 1, "etag": "\"0b13d5cd7d263ccb7c6425a348112f13\""}],
                "file_parts_md5": "pIX9YH40aFyNTQB/HPa4iw==", "primary_keys": ["id"], "commit_message": "Import people",
            }),
            one(accepted()),
        ),
        "listOperations" => shown(list(operation())),
        "getOperation" => shown(one(operation())),
        "cancelOperation" => shown(one(json!({
            "id": OPERATION, "type": "import", "status": "failed", "created_at": AT, "finished_at": LATER, "created_by": "ada",
            "cancelable": false,
            "error": {"status": 409, "code": "CANCELED", "title": "Canceled", "detail": "canceled by ada"},
        }))),
        _ => return None,
    })
}

fn database() -> Value {
    json!({
        "owner": "ada", "name": "rivers", "description": "River gauges", "visibility": "private", "fork_network_count": 0,
        "star_count": 0, "size_bytes": 4096, "last_write_at": AT, "default_branch": "main", "created_at": AT,
        "viewer_role": "admin",
    })
}

fn branch(name: &str, is_default: bool) -> Value {
    json!({"name": name, "head_commit_sha": HEAD, "last_updated_at": AT, "is_default": is_default})
}

fn tag() -> Value {
    json!({"name": "v1", "commit_sha": HEAD, "message": "First cut", "tagged_at": AT})
}

fn release() -> Value {
    json!({"tag": "v1", "title": "Version 1", "commit_sha": HEAD, "created_at": AT, "updated_at": AT})
}

fn branch_of(owner: &str, name: &str) -> Value {
    json!({"database": {"owner": owner, "name": "rivers"}, "branch_name": name})
}

fn pull_summary() -> Value {
    json!({"pull_number": 7, "title": "Fix gauges", "state": "open", "created_at": AT, "updated_at": AT, "creator": "bob"})
}

fn pull() -> Value {
    let mut pull = pull_summary();
    pull["from_branch"] = branch_of("bob", "work");
    pull["to_branch"] = branch_of("ada", "main");
    pull["from_commit_sha"] = NEXT.into();
    pull["to_commit_sha"] = HEAD.into();
    pull
}

fn comment() -> Value {
    json!({
        "comment_id": "0199c3a6-2f00-7b3c-a1d4-0a1b2c3d4e5f", "author": "ada", "body": "Looks right.", "created_at": AT,
        "updated_at": AT,
    })
}

fn row_diff() -> Value {
    json!({
        "table": "gauges", "change": "modified", "primary_key": {"id": "4"}, "from": {"id": "4", "level": "1.5"},
        "to": {"id": "4", "level": "2.0"},
    })
}

fn table_diff() -> Value {
    json!({
        "table": "gauges", "change": "modified", "schema_changed": false, "rows_added": 0, "rows_removed": 0,
        "rows_modified": 1,
    })
}

fn result() -> Value {
    let column = |name: &str, kind: &str, key: bool| json!({"name": name, "type": kind, "is_primary_key": key, "source_table": "people"});
    json!({
        "columns": [column("id", "INTEGER", true), column("name", "TEXT", false)], "rows": [["1", "Alice"], ["2", null]],
        "status": "success", "warnings": [],
    })
}

fn accepted() -> Value {
    let href = format!("https://yard.example/api/v2/operations/{}", OPERATION.replace('/', "%2F"));
    json!({"id": OPERATION, "href": href})
}

fn operation() -> Value {
    json!({
        "id": OPERATION, "type": "sql_write", "status": "succeeded", "created_at": AT, "started_at": AT, "finished_at": LATER,
        "created_by": "ada", "cancelable": false, "result": {"commit_sha": NEXT},
    })
}

/// A problem with this code.
pub(super) fn problem(code: ErrorCode) -> Value {
    let detail = code.explanation().meaning.split(['.', ';']).next().unwrap_or_default();
    let problem = Problem::new(code, detail);
    let document = problem.document("https://yard.example/docs/errors", "/api/v2/user", "req_0199c3a4");
    serde_json::to_value(document).unwrap_or_default()
}
