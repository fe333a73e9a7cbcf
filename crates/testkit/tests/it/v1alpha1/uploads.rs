use reqwest::Method;
use serde_json::json;

use super::{BASE, Client, params, text, trees, trees_with};

#[test]
fn what_exists_already_says_so() {
    let (server, _, client) = trees();
    let body = json!({"ownerName": "ana", "repoName": "trees", "visibility": "public"});
    assert_eq!(client.post("/database", &body).expect(400).json()["message"], "database ana/trees already exists");
    let eve = Client::of(&server.user("eve"));
    let fork = json!({"parentOwnerName": "ana", "parentDatabaseName": "trees", "ownerName": "eve"});
    eve.post("/fork", &fork).expect(200);
    let again = eve.post("/fork", &fork).expect(400).json();
    assert!(text(&again["message"]).contains("already exists"), "{again}");
}

/// Clients read `already exists` as success, so the message of a failed import does not contain it (v1alpha1 §3).
#[test]
fn a_table_that_an_import_would_create_again_is_a_failure_for_clients() {
    let (_server, _, client) = trees();
    let mut params = params("main");
    params["importOp"] = "Create".into();
    let params = params.to_string();
    let parts: [(&str, &str, &[u8]); 2] =
        [("file", "text/csv", b"id,name\n7,fir\n"), ("params", "application/json", params.as_bytes())];
    let started = client.upload("ana/trees", &parts).expect(200).json();
    let done = client.poll("/ana/trees/upload", text(&started["operation_name"])).expect(200).json();
    assert_eq!((&done["status"], &done["job_status"]), (&json!("Error"), &json!("Failed")), "{done}");
    let message = text(&done["message"]);
    assert!(message.contains("'tree'") && !message.contains("already exists"), "{done}");
}

#[test]
fn parts_come_in_any_order_and_any_type() {
    let (_server, _, client) = trees();
    let params = params("main").to_string();
    let file: (&str, &str, &[u8]) = ("file", "application/octet-stream", b"id,name\n7,fir\n");
    let told: (&str, &str, &[u8]) = ("params", "application/json", params.as_bytes());
    for parts in [[file, told], [told, file]] {
        let started = client.upload("ana/trees", &parts).expect(200).json();
        assert_eq!((&started["branch_name"], &started["table_name"]), (&json!("main"), &json!("tree")));
        let done = client.poll("/ana/trees/upload", text(&started["operation_name"])).expect(200).json();
        assert_eq!(done["job_status"], "Completed", "{done}");
        let id = text(&started["operation_name"]).rsplit('-').next().unwrap().to_owned();
        let pull = client.get(&format!("/ana/trees/pulls/{}", text(&done["pull_id"]))).expect(200).json();
        assert_eq!(pull["from_branch"], format!("ana/import-{id}"));
        let at = format!("ana/trees/ana/import-{id}");
        assert_eq!(client.read(&at, "SELECT name FROM tree WHERE id = 7")["rows"], json!([{"name": "fir"}]));
    }
}

#[test]
fn polls_ignore_a_branch_and_identical_data_opens_no_pull() {
    let (_server, _, client) = trees();
    let started = client.upload_trees("ana/trees", "id,name\n7,oak\n").expect(200).json();
    let name = text(&started["operation_name"]);
    let done = client.poll("/ana/trees/upload", name).expect(200).json();
    assert_eq!((&done["job_status"], &done["pull_id"]), (&json!("Completed"), &json!("")));
    for extra in ["", "&branch=main", "&branchName=main"] {
        let poll = client.get(&format!("/ana/trees/upload?operationName={name}{extra}")).expect(200).json();
        assert_eq!(poll, done, "{extra}");
    }
    assert_eq!(client.get("/ana/trees/branches").expect(200).json()["branches"], json!([{"branch_name": "main"}]));
    let direct = params("").to_string();
    let parts: [(&str, &str, &[u8]); 2] =
        [("file", "text/csv", b"id,name\n7,yew\n"), ("params", "text/plain", direct.as_bytes())];
    let started = client.upload("ana/trees", &parts).expect(200).json();
    let done = client.poll("/ana/trees/upload", text(&started["operation_name"])).expect(200).json();
    assert_eq!(done["pull_id"], "", "without a branch it lands on the default branch");
    assert_eq!(client.read("ana/trees", "SELECT name FROM tree WHERE id = 7")["rows"], json!([{"name": "yew"}]));
}

#[test]
fn two_uploads_at_once_complete_and_a_full_queue_is_429() {
    let (_server, _, client) = trees_with(|config| config.operations.max_queued_per_database = 2);
    let started: Vec<_> = ["id,name\n7,a\n", "id,name\n8,b\n"]
        .into_iter()
        .map(|file| client.upload_trees("ana/trees", file).expect(200).json())
        .collect();
    for upload in &started {
        let done = client.poll("/ana/trees/upload", text(&upload["operation_name"])).expect(200).json();
        assert_eq!(done["job_status"], "Completed", "{done}");
    }
    let slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000000) SELECT max(i) FROM n";
    let request = || client.request(Method::POST, &format!("{BASE}/ana/trees/write/main/main"));
    let full =
        (0..10).map(|_| client.send(request().json(&json!({"query": slow})))).find(|answer| answer.status == 429);
    assert_eq!(full.expect("the queue is full at some time").json()["operation_name"], "");
    let refused = client.upload_trees("ana/trees", "id,name\n7,c\n").expect(429);
    assert!(!refused.header("retry-after").is_empty());
    assert_eq!(refused.json()["status"], "Error");
}

/// The request has a `Content-Length`, as curl and nearly all clients send it.
#[test]
fn a_file_may_be_larger_than_a_body_of_json() {
    let (_server, _, client) = trees();
    let mut file = "id,name\n".to_owned();
    for id in 1..50_000 {
        file.push_str(&format!("{id},{}\n", "x".repeat(70)));
    }
    assert!(file.len() > 3 << 20);
    let started = client.upload_trees("ana/trees", &file).expect(200).json();
    let done = client.poll("/ana/trees/upload", text(&started["operation_name"])).expect(200).json();
    assert_eq!(done["job_status"], "Completed", "{done}");
}

#[test]
fn uploads_are_bounded_and_say_what_is_wrong() {
    let (server, _, client) = trees_with(|config| config.v1alpha1.upload_max_bytes = 20);
    let fits = client.upload_trees("ana/trees", "id,name\n7,elm\n8,yew\n").status;
    assert_eq!(fits, 200, "of the limit");
    let large = client.upload_trees("ana/trees", "id,name\n7,elm\n8,yews\n").expect(413).json();
    assert_eq!((&large["status"], &large["message"]), (&json!("Error"), &json!("the file has more than 20 bytes")));
    let json_body = client.post("/ana/trees/upload", &json!({})).expect(415).json();
    assert!(text(&json_body["message"]).starts_with("Invalid request body: "), "{json_body}");
    let message = |parts: &[(&str, &str, &[u8])]| {
        text(&client.upload("ana/trees", parts).expect(400).json()["message"]).to_owned()
    };
    let (file, good): ((&str, &str, &[u8]), String) = (("file", "text/csv", b"id,name\n"), params("main").to_string());
    let told = |text: &'static str| ("params", "text/plain", text.as_bytes());
    assert_eq!(message(&[file]), "Invalid request body: params: is required");
    assert_eq!(message(&[("params", "text/plain", good.as_bytes())]), "Invalid request body: file: is required");
    assert_eq!(message(&[file, told("{}")]), "Invalid request body: fileName: is required");
    let gone = params("gone").to_string();
    assert_eq!(message(&[file, ("params", "text/plain", gone.as_bytes())]), "branch not found: gone");
    let stranger = Client::of(&server.user("eve")).upload_trees("ana/trees", "id,name\n7,a\n").expect(400).json();
    assert_eq!(stranger["message"], "permission denied: importing needs write on ana/trees");
    let nobody = Client::of(&server.anonymous()).upload_trees("ana/trees", "id,name\n7,a\n").expect(400).json();
    assert_eq!(nobody["message"], "Not authenticated");
}
