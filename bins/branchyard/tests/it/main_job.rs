//! The main workflow: import, branch, write, fork, pull request, merge, read.

use branchyard_testkit::Server;
use serde_json::json;

const PEOPLE: &[u8] = b"\xef\xbb\xbfid,name,note\r\n1,Alice,\"says \"\"hi\"\"\"\r\n2,Bob,\r\n3,\"Carol\nC.\",x\r\n";

#[test]
fn import_branch_write_fork_pull_merge_read() {
    let server = Server::start();
    let (ada, bob) = (server.user("ada"), server.user("bob"));
    assert_eq!(ada.get("/user").expect(200).data()["username"], "ada");
    ada.database("people");

    let imported = ada.import("ada/people", "csv", PEOPLE, 2, &json!({"table_name": "people", "primary_keys": ["id"]}));
    assert_eq!(imported["status"], "succeeded", "{imported}");
    let rows = ada.read("ada/people", "main", "select id, name, note from people order by id");
    assert_eq!(rows, json!([["1", "Alice", "says \"hi\""], ["2", "Bob", ""], ["3", "Carol\nC.", "x"]]));

    let forked = bob.finish(&bob.post("/databases/ada/people/forks", &json!({"owner": "bob"})));
    assert_eq!(forked["result"]["database"], json!({"owner": "bob", "name": "people"}));
    bob.write(
        "bob/people",
        "main",
        "update people set name = 'Bobby' where id = 2; insert into people values (4, 'Dan', '')",
    );

    let body = json!({
        "title": "Names", "from_branch": {"database": {"owner": "bob", "name": "people"}, "branch_name": "main"},
        "to_branch": {"database": {"owner": "ada", "name": "people"}, "branch_name": "main"},
    });
    let pull = bob.post("/databases/ada/people/pulls", &body).expect(201).data();
    assert_eq!((&pull["pull_number"], &pull["state"]), (&json!(1), &json!("open")));
    let diff = ada.get_shown("/databases/ada/people/pulls/1/diff").expect(200).data();
    let changes: Vec<_> =
        diff.as_array().unwrap().iter().map(|row| (row["change"].clone(), row["primary_key"]["id"].clone())).collect();
    assert_eq!(changes, [(json!("modified"), json!("2")), (json!("added"), json!("4"))]);
    assert_eq!(ada.get("/databases/ada/people/pulls/1/conflicts").expect(200).data(), json!([]));
    ada.post("/databases/ada/people/pulls/1/comments", &json!({"body": "Looks right."})).expect(201);

    let merged = ada.finish(&ada.post("/databases/ada/people/pulls/1/merge", &json!({})));
    assert_eq!(merged["status"], "succeeded", "{merged}");
    assert_eq!(ada.get("/databases/ada/people/pulls/1").expect(200).data()["state"], "merged");
    let rows = ada.read("ada/people", "main", "select id, name from people order by id");
    assert_eq!(rows, json!([["1", "Alice"], ["2", "Bobby"], ["3", "Carol\nC."], ["4", "Dan"]]));
}

#[test]
fn a_conflicting_merge_fails_and_changes_nothing() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("d");
    ada.write("ada/d", "main", "create table t (id integer primary key, v text); insert into t values (1, 'base')");
    ada.post("/databases/ada/d/branches", &json!({"name": "side", "from": {"branch": "main"}})).expect(201);
    ada.write("ada/d", "side", "update t set v = 'theirs' where id = 1");
    let head = ada.write("ada/d", "main", "update t set v = 'ours' where id = 1");
    let place = |branch| json!({"database": {"owner": "ada", "name": "d"}, "branch_name": branch});
    let body = json!({"title": "Clash", "from_branch": place("side"), "to_branch": place("main")});
    ada.post("/databases/ada/d/pulls", &body).expect(201);

    let conflicts = ada.get("/databases/ada/d/pulls/1/conflicts").expect(200).data();
    assert_eq!(conflicts[0]["table"], "t");
    assert_eq!((&conflicts[0]["ours"]["v"], &conflicts[0]["theirs"]["v"]), (&json!("ours"), &json!("theirs")));
    let failed = ada.finish(&ada.post("/databases/ada/d/pulls/1/merge", &json!({})));
    assert_eq!(failed["error"]["code"], "MERGE_CONFLICT", "{failed}");
    assert_eq!(failed["error"]["detail"], "1 conflict in t");
    assert_eq!(ada.get("/databases/ada/d/branches/main").expect(200).data()["head_commit_sha"], json!(head));
    assert_eq!(ada.get("/databases/ada/d/pulls/1").expect(200).data()["state"], "open");

    let resolved = ada.finish(&ada.post("/databases/ada/d/pulls/1/merge", &json!({"resolve": {"t": "theirs"}})));
    assert_eq!(resolved["status"], "succeeded", "{resolved}");
    assert_eq!(ada.read("ada/d", "main", "select v from t"), json!([["theirs"]]));
}

#[test]
fn a_failed_write_creates_no_branch_and_a_refused_import_no_table() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("d");
    let body =
        json!({"from_branch": "main", "to_branch": "new", "q": "create table t (a); insert into nowhere values (1)"});
    let failed = ada.finish(&ada.post("/databases/ada/d/sql-writes", &body));
    assert_eq!(failed["error"]["detail"], "query error: table not found: nowhere (statement 2)");
    ada.get("/databases/ada/d/branches/new").expect(404);

    let failed = ada.import("ada/d", "csv", b"a,b\n1\n2,\xff\n", 1, &json!({}));
    assert_eq!(failed["error"]["code"], "OPERATION_FAILED", "{failed}");
    assert_eq!(failed["error"]["errors"][0]["line"], 2);
    assert_eq!(ada.read("ada/d", "main", "show tables"), json!([]));
}

#[test]
fn every_spelling_of_an_operation_id_is_the_same() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("d");
    let accepted = ada.post(
        "/databases/ada/d/sql-writes",
        &json!({"from_branch": "main", "to_branch": "main", "q": "create table t (a)"}),
    );
    let operation = ada.finish(&accepted);
    let id = operation["id"].as_str().unwrap();
    let href = accepted.data()["href"].as_str().unwrap().to_owned();
    let uuid = id.rsplit('/').next().unwrap();
    for spelling in [
        format!("/operations/{id}"),
        format!("/operations/{}", id.replace('/', "%2F")),
        format!("/operations/{uuid}"),
        href,
    ] {
        assert_eq!(ada.get(&spelling).expect(200).data()["id"], json!(id), "{spelling}");
    }
    ada.get(&format!("/operations/databases/ada/other/operations/{uuid}")).expect(404);
    server.anonymous().get(&format!("/operations/{uuid}")).expect(401);
    server.user("eve").get(&format!("/operations/{uuid}")).expect(200);
}

#[test]
fn a_hidden_database_looks_like_a_missing_one() {
    let server = Server::start();
    let (ada, eve) = (server.user("ada"), server.user("eve"));
    ada.post("/databases", &json!({"owner": "ada", "name": "secret", "visibility": "private"})).expect(201);
    for path in ["", "/branches", "/sql?q=select+1", "/pulls/1", "/operations"] {
        for actor in [&eve, &server.anonymous()] {
            let hidden = actor.get(&format!("/databases/ada/secret{path}")).expect(404).json();
            let missing = actor.get(&format!("/databases/ada/nothing{path}")).expect(404).json();
            assert_eq!(hidden["detail"], "no such repository");
            assert_eq!(hidden["detail"], missing["detail"]);
        }
    }
}
