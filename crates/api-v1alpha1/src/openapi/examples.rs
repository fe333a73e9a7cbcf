//! Examples of requests and responses by operation id. They form one conversation about the database `ana/trees`, as in the
//! contract.

use serde_json::{Value, json};

/// A request and its successful responses, each with name, summary and body. A single response has no name.
pub(super) struct ExampleExchange {
    pub(super) request: Option<Value>,
    pub(super) answers: Vec<(&'static str, &'static str, Value)>,
}

/// The example of a table download.
pub(super) const CSV: &str = "id,name,felled\n7,oak,\n8,ash,2025-01-03\n";

const AT: &str = "2026-01-02T03:04:05.000Z";
const BEFORE: &str = "a91e07c4d2b85f3360e7f1c9d4a8b25e7703fc16";
const AFTER: &str = "3f2c9a7d5e1b8064c2d7f9a1b3e5d70896a4c2f1";
const WRITE: &str = "users/ana/userOperations/019b7ca9-8c88-7a10-8d11-3e5f7a9b1c2d";
const MERGE: &str = "repositoryOwners/ana/repositories/trees/jobs/019b7caa-76e8-7d02-9a5b-1f2e3d4c5b6a";
const MERGE_BY: &str = "users/ana/userOperations/019b7caa-76e8-7d02-9a5b-1f2e3d4c5b6a";
const IMPORT: &str = "repositoryOwners/ana/repositories/trees/jobs/019b7ce0-7b08-7f44-8c2d-6a7b8c9d0e1f";
const IMPORT_BY: &str = "users/ana/userOperations/019b7ce0-7b08-7f44-8c2d-6a7b8c9d0e1f";
const FORK: &str = "operations/019b7ca9-9138-7c3e-b0f4-52d6e8fa0b1c";
const UPDATE: &str = "UPDATE tree SET name='elm' WHERE id=7";

fn shown(answer: Value) -> ExampleExchange {
    ExampleExchange { request: None, answers: vec![("", "", answer)] }
}

fn asked(request: Value, answer: Value) -> ExampleExchange {
    ExampleExchange { request: Some(request), answers: vec![("", "", answer)] }
}

fn several(answers: Vec<(&'static str, &'static str, Value)>) -> ExampleExchange {
    ExampleExchange { request: None, answers }
}

/// Returns an object with `status: Success`, the database, and the fields of `more`.
fn of_trees(more: Value) -> Value {
    merged(json!({"status": "Success", "database_owner": "ana", "database_name": "trees"}), more)
}

fn merged(mut whole: Value, more: Value) -> Value {
    if let (Some(whole), Value::Object(more)) = (whole.as_object_mut(), more) {
        whole.extend(more);
    }
    whole
}

fn read(status: &str, message: &str, q: &str) -> Value {
    json!({
        "query_execution_status": status, "query_execution_message": message, "repository_owner": "ana",
        "repository_name": "trees", "commit_ref": "main", "sql_query": q,
    })
}

fn reads(id: &str) -> ExampleExchange {
    let q = "SELECT name, id, felled FROM tree";
    let schema = json!([
        {"columnName": "name", "columnType": "varchar(64)"}, {"columnName": "id", "columnType": "bigint"},
        {"columnName": "felled", "columnType": "date"},
    ]);
    let rows = json!([{"name": "oak", "id": "7", "felled": null}, {"name": "ash", "id": "8", "felled": "2025-01-03"}]);
    let result = |status: &str, message: &str, schema: &Value, rows: &Value| {
        merged(read(status, message, q), json!({"schema": schema, "rows": rows}))
    };
    let none = json!([]);
    let syntax = "query error: Error parsing SQL: syntax error at position 6 near 'selct'.";
    let mut answers = vec![
        ("success", "All rows.", result("Success", "", &schema, &rows)),
        (
            "row_limit",
            "The result has more rows or bytes than are sent.",
            result("RowLimit", "only the first 1000 rows are returned", &schema, &rows),
        ),
        (
            "timeout",
            "The time limit was exceeded.",
            result("Timeout", "query error: query timed out after 55000 ms", &none, &none),
        ),
        ("query_error", "The statement failed.", read("Error", syntax, "selct 1")),
    ];
    if id == "read" {
        let absent = merged(read("Error", "branch not found: fix-8", q), json!({"commit_ref": "fix-8"}));
        answers.push(("branch_not_found", "Unknown ref.", absent));
    }
    several(answers)
}

fn details(status: &str, message: &str, to: &str) -> Value {
    let from = if to.is_empty() { "" } else { BEFORE };
    json!({
        "query_execution_status": status, "query_execution_message": message, "owner_name": "ana",
        "repository_name": "trees", "from_commit_id": from, "to_commit_id": to,
    })
}

fn write_polls() -> ExampleExchange {
    let pending = |done: bool| json!({"_id": WRITE, "operation_name": WRITE, "done": done});
    let over = |status: &str, message: &str, to: &str| {
        let same = json!({"query_execution_status": status, "query_execution_message": message});
        merged(merged(pending(true), same), json!({"res_details": details(status, message, to)}))
    };
    several(vec![
        ("pending", "Queued or running.", pending(false)),
        (
            "done",
            "A commit was made.",
            over("Success", "Query OK, 1 row affected. Rows matched: 1  Changed: 1  Warnings: 0.", AFTER),
        ),
        ("failed", "A failed write is not an HTTP error.", over("Error", "query error: table not found: treez", "")),
    ])
}

fn job_polls(name: &str, pull_id: &str) -> ExampleExchange {
    let poll = |status: &str, job: &str, done: bool, pull_id: &str| {
        json!({
            "status": status, "operation_name": name, "job_created": true, "database_owner": "ana", "database_name": "trees",
            "pull_id": pull_id, "job_status": job, "done": done,
        })
    };
    // The pull request of a merge is in the path. The pull request of an import is part of its result.
    let so_far = if name == MERGE { pull_id } else { "" };
    let completed = json!({"res_details": details("Success", "", AFTER)});
    let text = "merge conflict: 1 conflict in tree";
    let failed = json!({"message": text, "res_details": details("Error", text, "")});
    several(vec![
        ("pending", "Queued or running.", poll("Success", "Pending", false, so_far)),
        ("completed", "Done.", merged(poll("Success", "Completed", true, pull_id), completed)),
        ("failed", "Failed.", merged(poll("Error", "Failed", true, so_far), failed)),
    ])
}

fn fork_polls() -> ExampleExchange {
    let poll = |status: &str, done: bool, owner: &str, name: &str| {
        json!({
            "status": status, "done": done, "operation_name": FORK, "database_owner": owner, "owner_name": owner,
            "database_name": name,
        })
    };
    several(vec![
        ("pending", "Queued or running.", poll("Pending", false, "", "")),
        ("done", "The fork exists.", poll("Success", true, "bo", "trees")),
    ])
}

fn pull_item() -> Value {
    json!({
        "pull_id": "4", "title": "Rename elm", "description": "", "state": "Open", "created_at": AT, "updated_at": AT,
        "creator": "bo", "creator_name": "bo",
    })
}

fn pull() -> Value {
    let mut pull = of_trees(json!({
        "pull_id": "4", "title": "Rename elm", "description": "", "state": "Open", "created_at": AT, "author": "bo",
    }));
    for (side, owner, branch) in [("from", "bo", "fix-7"), ("to", "ana", "main")] {
        for (field, value) in [("owner", owner), ("owner_name", owner), ("database", "trees"), ("repo_name", "trees")] {
            pull[format!("{side}_branch_{field}")] = value.into();
        }
        pull[format!("{side}_branch")] = branch.into();
        pull[format!("{side}_branch_name")] = branch.into();
    }
    pull
}

fn tag_item() -> Value {
    json!({"tag_name": "v2", "tag_description": "spring count", "tagged_at": "2026-01-02T09:10:11.000Z"})
}

/// Returns the example of an operation.
pub(super) fn of(id: &str) -> Option<ExampleExchange> {
    let starts = json!({"revisionType": "branch", "revisionName": "main"});
    let echoes = json!({"revision_type": "branch", "revision_name": "main"});
    Some(match id {
        "getOpenapiDocument" => shown(json!({"openapi": "3.1.0"})),
        "getUser" => shown(json!({
            "status": "Success", "username": "ana", "display_name": "Ana", "bio": "", "location": "", "url": "",
            "profile_picture_url": "",
            "email_addresses": [{"address": "ana@example.org", "is_primary": true, "is_verified": true}],
        })),
        "createDatabase" => asked(
            json!({"ownerName": "ana", "repoName": "trees", "visibility": "public", "description": "City trees"}),
            json!({
                "status": "Success", "description": "City trees", "repository_owner": "ana", "repository_name": "trees",
                "visibility": "public",
            }),
        ),
        "readDefault" | "read" => reads(id),
        "write" => asked(
            json!({"query": UPDATE}),
            json!({
                "query_execution_status": "Success",
                "query_execution_message": "Operation created. Poll GET https://yard.example/api/v1alpha1/ana/trees/write?operationName=users%2Fana%2FuserOperations%2F019b7ca9-8c88-7a10-8d11-3e5f7a9b1c2d until done is true.",
                "repository_owner": "ana", "repository_name": "trees", "from_branch_name": "main", "to_branch_name": "fix-7",
                "query": UPDATE, "operation_name": WRITE,
            }),
        ),
        "pollWrite" => write_polls(),
        "listForks" => shown(of_trees(json!({
            "forks": [{"database_owner": "bo", "database_name": "trees"}], "parent_owner": "", "parent_database_name": "",
            "network_root_owner": "ana", "network_root_database_name": "trees", "fork_network_count": 1,
        }))),
        "forkDatabase" | "createFork" => {
            let parent = json!({"parentOwnerName": "ana", "parentDatabaseName": "trees"});
            let new = json!({"ownerName": "bo"});
            let answer = json!({
                "status": "Success", "parent_owner": "ana", "parent_database": "trees", "forked_owner": "bo", "operation_name": FORK,
            });
            asked(if id == "createFork" { new } else { merged(parent, new) }, answer)
        }
        "pollFork" => fork_polls(),
        "listBranches" => shown(of_trees(json!({"branches": [{"branch_name": "fix-7"}, {"branch_name": "main"}]}))),
        "createBranch" => asked(
            merged(starts, json!({"newBranchName": "fix-7"})),
            of_trees(merged(echoes, json!({"new_branch_name": "fix-7"}))),
        ),
        "deleteBranch" => shown(of_trees(json!({"branch_name": "fix-7"}))),
        "listTags" => shown(of_trees(json!({"next_page_token": "", "tags": [tag_item()]}))),
        "listReleases" => shown(of_trees(json!({"next_page_token": "", "releases": [tag_item()]}))),
        "createTag" | "createRelease" => asked(
            merged(starts, json!({"tagName": "v2", "tagMessage": "spring count"})),
            of_trees(merged(echoes, json!({"tag_name": "v2", "tag_description": "spring count"}))),
        ),
        "listPulls" => shown(of_trees(json!({"next_page_token": "", "pulls": [pull_item()]}))),
        "createPull" => asked(
            json!({
                "title": "Rename elm", "fromBranchOwnerName": "bo", "fromBranchRepoName": "trees", "fromBranchName": "fix-7",
                "toBranchName": "main",
            }),
            json!({
                "status": "Success", "title": "Rename elm", "description": "", "from_owner_name": "bo",
                "from_repository_name": "trees", "from_branch_name": "fix-7", "to_owner_name": "ana",
                "to_repository_name": "trees", "to_branch_name": "main", "pull_id": "4", "_id": "4",
            }),
        ),
        "getPull" => shown(pull()),
        "updatePull" => asked(
            json!({"description": "See count 7", "state": "closed"}),
            of_trees(json!({"pull_id": "4", "title": "Rename elm", "description": "See count 7", "state": "Closed"})),
        ),
        "createComment" => asked(
            json!({"comment": "Row 7 was an oak."}),
            json!({
                "status": "Success", "repository_owner": "ana", "repository_name": "trees", "pull_id": "4",
                "comment": "Row 7 was an oak.",
            }),
        ),
        "mergePull" => asked(
            json!({}),
            of_trees(json!({"pull_id": "4", "operation_name": MERGE, "user_operation_name": MERGE_BY})),
        ),
        "pollMerge" => job_polls(MERGE, "4"),
        "upload" => asked(
            json!({
                "file": "id,name\n9,yew\n",
                "params": {
                    "fileName": "trees.csv", "branchName": "main", "fileType": "Csv", "importOp": "Update", "tableName": "tree",
                    "primaryKeys": ["id"],
                },
            }),
            of_trees(json!({
                "branch_name": "main", "table_name": "tree", "operation_name": IMPORT, "user_operation_name": IMPORT_BY,
            })),
        ),
        "pollUpload" => job_polls(IMPORT, "5"),
        "listJobs" => shown(of_trees(json!({"next_page_token": "", "jobs": [{
            "job_id": IMPORT, "creator": "ana", "description": "Import trees.csv into tree", "job_type": "Import",
            "status": "Failed", "created_at": AT, "job_error": "row 12: 3 fields, expected 4",
            "error": "row 12: 3 fields, expected 4",
        }]}))),
        "listUserOperations" => {
            let metadata = json!({
                "from_branch_name": "main", "from_repo_name": "trees", "from_repo_owner": "ana", "sql_query": UPDATE,
                "to_branch_name": "fix-7", "to_repo_name": "trees", "to_repo_owner": "ana",
            });
            shown(json!({"status": "Success", "next_page_token": "", "operations": [{
                "operation_name": WRITE, "creator": "ana", "description": format!("Run query {UPDATE}"),
                "operation_type": "SqlWrite", "operation_status": "Success", "error": "", "metadata": metadata.to_string(),
                "created_at": AT, "updated_at": "2026-01-02T03:04:06.200Z",
            }]}))
        }
        _ => return None,
    })
}
