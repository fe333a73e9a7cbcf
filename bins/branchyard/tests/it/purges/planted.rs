//! Searches for planted texts after a purge.

use branchyard_testkit::{AMPLE, Actor, wait_until};
use reqwest::Method;
use serde_json::json;

use super::{files_with, purge, tokens};
use crate::process::program;

const PLANTED: &str = "PLANTED";

#[test]
fn what_was_purged_is_in_no_file_and_no_answer() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let tokens = tokens(dir, &["ada", "bob", "eve"]);
    let server = program().start(dir);
    let actor = |number: usize, name| Actor::new(server.origin.clone(), Some(tokens[number].clone()), name);
    let (ada, bob, eve) = (actor(0, "ada"), actor(1, "bob"), actor(2, "eve"));
    ada.database("lakes");
    ada.write("ada/lakes", "main", "create table t (id integer primary key, v text); insert into t values (1, 'KEPT')");
    let body = json!({"from_branch": "main", "to_branch": "gone", "q": format!(
        "insert into t values (2, '{PLANTED} IN A ROW'); insert into t values (3, '{PLANTED} {}'); \
         create table {PLANTED}_TABLE (x)", "in much text, ".repeat(2_000))});
    let written = ada.finish(&ada.post("/databases/ada/lakes/sql-writes", &body));
    let gone = written["result"]["commit_sha"].as_str().unwrap().to_owned();
    let csv = format!("id,v\n7,{PLANTED} IN AN IMPORT\n");
    ada.post("/databases/ada/lakes/branches", &json!({"name": "imported", "from": {"branch": "main"}})).expect(201);
    let fields = json!({"table_name": "imported", "branch_name": "imported"});
    ada.import("ada/lakes", "csv", csv.as_bytes(), 1, &fields);
    // Bob's fork keeps the branches of the time when it was made.
    bob.finish(&bob.post("/databases/ada/lakes/forks", &json!({"owner": "bob"})));
    eve.finish(&eve.post("/databases/ada/lakes/forks", &json!({"owner": "eve"})));
    eve.patch("/databases/eve/lakes", &json!({"visibility": "private"})).expect(200);
    eve.write("eve/lakes", "main", &format!("insert into t values (9, '{PLANTED} IN A PULL')"));
    let end = |owner: &str| json!({"database": {"owner": owner, "name": "lakes"}, "branch_name": "main"});
    let wanted = json!({"title": "Nine", "from_branch": end("eve"), "to_branch": end("ada"), "publish": true});
    eve.post("/databases/ada/lakes/pulls", &wanted).expect(201);
    wait_until("the source to be fetched", AMPLE, || eve.get("/databases/ada/lakes/pulls/1/diff/tables").status == 200);
    for branch in ["gone", "imported"] {
        ada.delete(&format!("/databases/ada/lakes/branches/{branch}")).expect(200);
    }

    let purged = purge(&ada, "ada/lakes");
    assert!(purged["freed_bytes"].as_u64().unwrap() > 0, "{purged}");
    assert_eq!(purged["kept_by_forks"], json!([{"owner": "bob", "name": "lakes"}]), "{purged}");
    assert_eq!(purged["kept_by_other_forks"], json!(true), "Eve's fork, which Ada cannot see: {purged}");
    assert_eq!(bob.read("bob/lakes", "gone", "select count(*) from t where id in (2, 3)"), json!([["2"]]));
    eve.post("/databases/ada/lakes/pulls/1/withdraw", &json!({})).expect(200);
    for (owner, actor) in [("bob", &bob), ("eve", &eve)] {
        actor.delete(&format!("/databases/{owner}/lakes")).expect(200);
    }
    let purged = purge(&ada, "ada/lakes");
    assert_eq!(purged["kept_by_other_forks"], json!(false), "{purged}");
    assert_eq!(purged["kept_by_forks"], json!([]), "{purged}");
    wait_until("the files of the deleted forks to go", AMPLE, || {
        files_with(&dir.join("databases"), PLANTED).is_empty()
    });
    bob.finish(&bob.post("/databases/ada/lakes/forks", &json!({"owner": "bob"})));
    assert_eq!(files_with(dir, PLANTED), []);

    for path in [
        format!("/ada/lakes/sql?ref={gone}&q=select%20*%20from%20t"),
        "/ada/lakes/operations".to_owned(),
        format!("/ada/lakes/operations/{}", written["id"].as_str().unwrap().rsplit('/').next().unwrap()),
        "/ada/lakes/activity".to_owned(),
        "/ada/lakes/pulls/1".to_owned(),
        "/api/v1alpha1/ada/lakes/jobs".to_owned(),
        format!("/api/v1alpha1/ada/lakes/write?operationName={}", written["id"].as_str().unwrap()),
        format!("/api/v1alpha1/ada/lakes/{gone}?q=select%20*%20from%20t"),
    ] {
        let text = ada.plain(Method::GET, &path).send().unwrap().text().unwrap();
        assert!(!text.contains("IN A ROW") && !text.contains("in much text"), "{path}: {text}");
    }
    assert_eq!(ada.read("ada/lakes", "main", "select id, v from t"), json!([["1", "KEPT"]]));
    assert_eq!(bob.read("bob/lakes", "main", "select id, v from t"), json!([["1", "KEPT"]]));
    server.terminate();
    assert_eq!(files_with(dir, PLANTED), [], "after the end of the server");
    assert_eq!(program().succeed(dir, &["doctor"]), "everything is in order");
}
