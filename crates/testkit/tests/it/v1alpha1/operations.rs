use serde_json::{Value, json};

use super::{Client, open_pull, params, text, trees};

/// Returns the spellings of an operation id that clients use.
fn spellings(name: &str) -> Vec<String> {
    let id = name.rsplit('/').next().unwrap();
    let plain = [
        format!("users/ana/userOperations/{id}"),
        format!("repositoryOwners/ana/repositories/trees/jobs/{id}"),
        format!("operations/{id}"),
        format!("databases/ana/trees/operations/{id}"),
        id.to_uppercase(),
    ];
    plain.into_iter().flat_map(|name| [name.replace('/', "%2F"), name.replace('/', "%252F"), name]).collect()
}

#[test]
fn every_spelling_works_on_every_poll() {
    let (_server, _, client) = trees();
    let pull = open_pull(&client, "fix-7");
    let merged = client.post(&format!("/ana/trees/pulls/{pull}/merge"), &json!({})).expect(200).json();
    let name = text(&merged["operation_name"]);
    client.poll("/ana/trees/upload", name).expect(200);
    let polls = ["/ana/trees/write", "/fork", &format!("/ana/trees/pulls/{pull}/merge"), "/ana/trees/upload"];
    for poll in polls {
        for spelling in spellings(name) {
            let json = client.get(&format!("{poll}?operationName={spelling}")).expect(200).json();
            assert_eq!(json["done"], true, "{poll} {spelling}: {json}");
        }
    }
    for bad in ["", "x", "users/ana/userOperations/x"] {
        let json = client.get(&format!("/ana/trees/upload?operationName={bad}")).expect(400).json();
        assert!(text(&json["message"]).starts_with("invalid operationName: "), "{json}");
        assert_eq!(json["operation_name"], bad);
    }
    let unknown = "019b7ca9-8c88-7a10-8d11-3e5f7a9b1c2d";
    let json = client.get(&format!("/ana/trees/write?operationName={unknown}")).expect(400).json();
    assert_eq!(json["query_execution_message"], "operation not found");
}

#[test]
fn an_operation_is_polled_and_a_database_read_at_a_former_name() {
    let (_server, actor, client) = trees();
    let written = client.write("ana/trees", "main", "main", "INSERT INTO tree (id, name) VALUES (90, 'yew')");
    actor.patch("/databases/ana/trees", &json!({"name": "woods"})).expect(200);
    let polled = client.poll("/ana/trees/write", text(&written["operation_name"])).expect(200).json();
    assert_eq!(polled["done"], true, "{polled}");
    let read = client.read("ana/trees/main", "SELECT name FROM tree WHERE id = 90");
    assert_eq!(read["repository_name"], "woods", "{read}");
    client.wrote("ana/trees", "main", "main", "DELETE FROM tree WHERE id = 90");
}

#[test]
fn a_merge_is_reported_by_the_poll_of_uploads_and_only_jobs_are_named_so() {
    let (_server, _, client) = trees();
    let pull = open_pull(&client, "fix-7");
    let merged = client.post(&format!("/ana/trees/pulls/{pull}/merge"), &json!({})).expect(200).json();
    let poll = client.poll("/ana/trees/upload", text(&merged["operation_name"])).expect(200).json();
    assert_eq!((&poll["job_status"], &poll["pull_id"]), (&json!("Completed"), &json!(pull)));
    let uploaded = client.upload_trees("ana/trees", "id,name\n7,fir\n").expect(200).json();
    let written = client.write("ana/trees", "main", "main", "SELECT 1");
    let forked = client.post("/ana/trees/forks", &json!({"ownerName": "ana"})).expect(400).json();
    assert!(text(&forked["message"]).contains("already exists"));
    let is_job = |value: &Value| text(value).starts_with("repositoryOwners/ana/repositories/trees/jobs/");
    assert!(is_job(&merged["operation_name"]) && is_job(&uploaded["operation_name"]));
    assert!(!is_job(&written["operation_name"]) && !is_job(&merged["user_operation_name"]));
}

#[test]
fn a_fork_is_pending_then_done_or_400() {
    let (server, _, client) = trees();
    let eve = Client::of(&server.user("eve"));
    let body = json!({"parentOwnerName": "ana", "parentDatabaseName": "trees", "ownerName": "eve"});
    // A slow write on the source delays the fork.
    let slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000000) SELECT max(i) FROM n";
    client.post("/ana/trees/write/main/main", &json!({"query": slow})).expect(200);
    let started = eve.post("/fork", &body).expect(200).json();
    let name = text(&started["operation_name"]);
    assert!(name.starts_with("operations/"), "{name}");
    let pending = eve.get(&format!("/fork?operationName={name}")).expect(200).json();
    let empty = json!("");
    assert_eq!((&pending["status"], &pending["done"]), (&json!("Pending"), &json!(false)));
    assert_eq!([&pending["owner_name"], &pending["database_owner"], &pending["database_name"]], [&empty; 3]);
    let done = eve.poll("/fork", name).expect(200).json();
    let expected = json!({"status": "Success", "done": true, "operation_name": name, "database_owner": "eve",
        "owner_name": "eve", "database_name": "trees"});
    assert_eq!(done, expected);
    let again = eve.post("/fork", &body).expect(400).json();
    assert_eq!(again["message"], "database eve/trees already exists");

    let failed = client.write("ana/trees", "main", "main", "DELETE FROM gone");
    let poll = client.get(&format!("/fork?operationName={}", text(&failed["operation_name"]))).expect(400).json();
    assert_eq!((&poll["status"], &poll["done"]), (&json!("Error"), &json!(true)));
}

#[test]
fn a_poll_of_a_job_ends_completed_or_failed() {
    let (_server, _, client) = trees();
    let pull = open_pull(&client, "fix-7");
    client.wrote("ana/trees", "main", "main", "UPDATE tree SET name = 'fir' WHERE id = 7");
    let path = format!("/ana/trees/pulls/{pull}/merge");
    let started = client.post(&path, &json!({})).expect(200).json();
    assert!(started.get("state").is_none(), "clients take a state for a merge that is over");
    let failed = client.poll(&path, text(&started["operation_name"])).expect(200).json();
    assert_eq!((&failed["job_status"], &failed["status"]), (&json!("Failed"), &json!("Error")));
    assert_eq!(failed["message"], "merge conflict: 1 conflict in tree");
    assert_eq!(failed["res_details"]["query_execution_status"], "Error");

    let body = params("main").to_string();
    let parts: [(&str, &str, &[u8]); 2] =
        [("params", "application/json", body.as_bytes()), ("file", "text/csv", b"id,name\n7,a,b\n")];
    let uploaded = client.upload("ana/trees", &parts).expect(200).json();
    let failed = client.poll("/ana/trees/upload", text(&uploaded["operation_name"])).expect(200).json();
    assert_eq!((&failed["job_status"], &failed["pull_id"]), (&json!("Failed"), &json!("")));
    let jobs = client.get("/ana/trees/jobs").expect(200).json();
    assert_eq!(jobs["jobs"][0]["job_error"], failed["message"]);
    assert_eq!(jobs["jobs"][0]["error"], failed["message"]);
    let completed = client.upload_trees("ana/trees", "id,name\n7,yew\n").expect(200).json();
    let completed = client.poll("/ana/trees/upload", text(&completed["operation_name"])).expect(200).json();
    assert_eq!((&completed["job_status"], &completed["done"]), (&json!("Completed"), &json!(true)));
    assert_eq!(completed["res_details"]["query_execution_message"], "");
}

#[test]
fn what_somebody_started_is_listed_for_them() {
    let (server, _, client) = trees();
    let pull = open_pull(&client, "fix-7");
    let merge = client.post(&format!("/ana/trees/pulls/{pull}/merge"), &json!({})).expect(200).json();
    client.poll("/ana/trees/upload", text(&merge["operation_name"]));
    for n in 0..16 {
        client.wrote("ana/trees", "main", "main", &format!("INSERT INTO tree VALUES ('x', {}, NULL)", 100 + n));
    }
    let first = client.get("/users/ana/operations").expect(200).json();
    assert_eq!(first["operations"].as_array().unwrap().len(), 15);
    let token = text(&first["next_page_token"]);
    let second = client.get(&format!("/users/Ana/operations?pageToken={token}")).expect(200).json();
    assert_eq!(second["next_page_token"], "");
    let merges = client.get("/users/ana/operations?operationType=merge").expect(200).json();
    let merged = &merges["operations"][0];
    assert_eq!(merged["description"], format!("Merge pull request #{pull}"));
    let metadata: Value = serde_json::from_str(text(&merged["metadata"])).unwrap();
    let expected = json!({"from_branch_name": "fix-7", "from_repo_name": "trees", "from_repo_owner": "ana", "sql_query": "",
        "to_branch_name": "main", "to_repo_name": "trees", "to_repo_owner": "ana"});
    assert_eq!(metadata, expected);
    assert_eq!(client.get("/users/ana/operations?operationType=SqlRead").expect(200).json()["operations"], json!([]));
    for bad in ["?operationType=Dance", "?pageToken=x", "?operationType=Merge&pageToken="] {
        let answer = client.get(&format!("/users/ana/operations{bad}{}", if bad.ends_with('=') { token } else { "" }));
        assert_eq!(answer.status, 400, "{bad}: {}", answer.text);
    }
    let others = Client::of(&server.user("eve")).get("/users/ana/operations").expect(400).json();
    assert!(text(&others["message"]).starts_with("permission denied: "), "{others}");
}
