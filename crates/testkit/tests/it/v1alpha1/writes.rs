use reqwest::Method;
use serde_json::json;

use super::{BASE, TREES, create, text, trees};

#[test]
fn a_database_made_a_moment_ago_takes_writes() {
    let (_server, _, client) = trees();
    create(&client, "fresh", "public");
    client.wrote("ana/fresh", "main", "main", TREES);
    client.wrote("ana/fresh", "main", "new", "DELETE FROM tree WHERE id = 7");
    assert_eq!(client.read("ana/fresh/new", "SELECT id FROM tree")["rows"], json!([{"id": "8"}]));
}

#[test]
fn semicolons_and_long_statements_commit() {
    let (_server, ana, client) = trees();
    client.wrote("ana/trees", "main", "main", "DELETE FROM tree WHERE id = 8;");
    // The commit message is cut within one of these two-byte characters.
    let statement = format!("UPDATE tree SET name = '{}é' WHERE id = 7", "é".repeat(2_000));
    let body = json!({"query": statement});
    let started = client.post("/ana/trees/write/main/main", &body).expect(200).json();
    assert_eq!(started["query"], json!(statement));
    let done = client.poll("/ana/trees/write", text(&started["operation_name"])).expect(200).json();
    assert_eq!(done["res_details"]["query_execution_status"], "Success", "{done}");
    let commits = ana.get("/databases/ana/trees/commits").expect(200).data();
    let message = text(&commits[0]["message"]);
    assert!(message.starts_with("Run SQL query: UPDATE") && (990..=1_000).contains(&message.len()), "{message}");
}

#[test]
fn a_refused_start_has_no_name() {
    let (_server, _, client) = trees();
    for path in ["/ana/trees/write/gone/main", "/ana/trees/write/main/not..fit", "/ana/none/write/main/main"] {
        let json = client.send(client.request(Method::POST, &format!("{BASE}{path}?q=SELECT%201"))).expect(400).json();
        assert_eq!((&json["operation_name"], &json["query_execution_status"]), (&json!(""), &json!("Error")), "{path}");
    }
    let json = client.post("/ana/trees/write/a/b/c", &json!({})).expect(400).json();
    assert_eq!(json["query_execution_message"], "invalid path: encode slashes in branch names as %2F");
}

#[test]
fn a_pending_poll_shows_nothing_that_looks_like_an_end() {
    let (_server, _, client) = trees();
    let slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000000) SELECT max(i) FROM n";
    let started = client.post("/ana/trees/write/main/main", &json!({"query": slow})).expect(200).json();
    let name = text(&started["operation_name"]).to_owned();
    let poll = client.get(&format!("/ana/trees/write?operationName={}", name.replace('/', "%2F"))).expect(200);
    assert_eq!(poll.json(), json!({"_id": name, "operation_name": name, "done": false}));
    assert_eq!((poll.header("retry-after"), poll.header("cache-control")), ("1", "no-store"));
    client.poll("/ana/trees/write", &name).expect(200);
}

#[test]
fn a_failed_write_is_no_error_of_http() {
    let (_server, _, client) = trees();
    let done = client.write("ana/trees", "main", "main", "DELETE FROM gone");
    assert_eq!((&done["done"], &done["query_execution_status"]), (&json!(true), &json!("Error")));
    let details = &done["res_details"];
    assert_eq!(details["query_execution_message"], "query error: table not found: gone");
    assert_eq!((&details["from_commit_id"], &details["to_commit_id"]), (&json!(""), &json!("")));
}

#[test]
fn a_landed_write_has_two_commits_and_an_idle_one_the_same_twice() {
    let (_server, _, client) = trees();
    let landed = client.wrote("ana/trees", "main", "main", "UPDATE tree SET name = 'elm' WHERE id = 7");
    let details = &landed["res_details"];
    assert_eq!((text(&details["from_commit_id"]).len(), text(&details["to_commit_id"]).len()), (40, 40));
    assert_ne!(details["from_commit_id"], details["to_commit_id"]);
    assert_eq!((&details["owner_name"], &details["repository_name"]), (&json!("ana"), &json!("trees")));
    let ok = "Query OK, 1 row affected. Rows matched: 1  Changed: 1  Warnings: 0.";
    assert_eq!((&landed["query_execution_message"], &details["query_execution_message"]), (&json!(ok), &json!(ok)));
    let idle = client.wrote("ana/trees", "main", "main", "DELETE FROM tree WHERE id = 99");
    assert_eq!(idle["res_details"]["from_commit_id"], idle["res_details"]["to_commit_id"]);
    assert_eq!((&idle["done"], &idle["query_execution_status"]), (&json!(true), &json!("Success")));
}

#[test]
fn a_write_without_a_statement_merges_the_first_branch_into_the_second() {
    let (_server, _, client) = trees();
    client.wrote("ana/trees", "main", "feature", "INSERT INTO tree VALUES ('yew', 9, NULL)");
    let request = client.request(Method::POST, &format!("{BASE}/ana/trees/write/feature/main"));
    let started = client.send(request).expect(200).json();
    assert_eq!(started["query"], "");
    let done = client.poll("/ana/trees/write", text(&started["operation_name"])).expect(200).json();
    assert_ne!(done["res_details"]["from_commit_id"], done["res_details"]["to_commit_id"], "{done}");
    assert_eq!(client.read("ana/trees/main", "SELECT id FROM tree WHERE id = 9")["rows"], json!([{"id": "9"}]));

    client.wrote("ana/trees", "feature", "feature", "UPDATE tree SET name = 'theirs' WHERE id = 7");
    let both = client.wrote("ana/trees", "feature", "main", "UPDATE tree SET name = 'x' WHERE id = 8");
    assert_ne!(both["res_details"]["from_commit_id"], both["res_details"]["to_commit_id"]);
    let names = client.read("ana/trees/main", "SELECT name FROM tree WHERE id < 9 ORDER BY id")["rows"].clone();
    assert_eq!(names, json!([{"name": "theirs"}, {"name": "x"}]));

    client.wrote("ana/trees", "feature", "feature", "UPDATE tree SET name = 'a' WHERE id = 7");
    let clash = client.write("ana/trees", "feature", "main", "UPDATE tree SET name = 'b' WHERE id = 7");
    let message = text(&clash["res_details"]["query_execution_message"]);
    assert_eq!(message, "merge conflict: 1 conflict in tree");
    let names = client.read("ana/trees/main", "SELECT name FROM tree WHERE id = 7")["rows"].clone();
    assert_eq!(names, json!([{"name": "theirs"}]), "main has not moved");
}

#[test]
fn what_is_done_can_be_read() {
    let (_server, _, client) = trees();
    for n in 100..110 {
        client.wrote("ana/trees", "main", "next", &format!("INSERT INTO tree VALUES ('x', {n}, NULL)"));
        let read = client.read("ana/trees/next", &format!("SELECT id FROM tree WHERE id = {n}"));
        assert_eq!(read["rows"], json!([{"id": n.to_string()}]));
    }
}
