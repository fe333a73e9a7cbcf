//! Conflicts and diffs of all kinds and sizes, over HTTP.

use branchyard_testkit::{Actor, Server};
use serde_json::{Value, json};

const PULL: &str = "/databases/ada/d/pulls/1";

/// Opens a pull request between two branches that changed the same base in different ways.
fn pull(server: &Server, base: &str, ours: &str, theirs: &str) -> Actor {
    let ada = server.user("ada");
    ada.database("d");
    ada.write("ada/d", "main", base);
    ada.post("/databases/ada/d/branches", &json!({"name": "side", "from": {"branch": "main"}})).expect(201);
    ada.write("ada/d", "side", theirs);
    ada.write("ada/d", "main", ours);
    let place = |branch| json!({"database": {"owner": "ada", "name": "d"}, "branch_name": branch});
    let body = json!({"title": "Clash", "from_branch": place("side"), "to_branch": place("main")});
    ada.post("/databases/ada/d/pulls", &body).expect(201);
    ada
}

fn merge(ada: &Actor, resolve: Value) -> Value {
    ada.finish(&ada.post(&format!("{PULL}/merge"), &json!({"resolve": resolve})))
}

#[test]
fn a_view_in_conflict_is_listed_and_resolved_by_its_name() {
    let server = Server::start();
    let ada = pull(
        &server,
        "create table t(id integer primary key); create view v as select 1 as n",
        "drop view v; create view v as select 2 as n",
        "drop view v; create view v as select 3 as n",
    );
    let listed = ada.get(&format!("{PULL}/conflicts")).expect(200).data();
    let conflict = json!({"table": "v", "kind": "schema", "detail": "the view 'v' was changed on both sides"});
    assert_eq!(listed, json!([conflict]));
    assert_eq!(ada.get(&format!("{PULL}/conflicts?table=V")).expect(200).data(), listed);
    assert_eq!(ada.get(&format!("{PULL}/conflicts?table=t")).expect(200).data(), json!([]));
    ada.get(&format!("{PULL}/conflicts?table=nope")).expect(404);
    assert_eq!(merge(&ada, json!({}))["error"]["detail"], "1 conflict in v");
    assert_eq!(merge(&ada, json!({"v": "theirs"}))["status"], "succeeded");
    assert_eq!(ada.read("ada/d", "main", "select n from v"), json!([["3"]]));
}

#[test]
fn a_side_that_cannot_be_chosen_is_said_to_be_so() {
    let server = Server::start();
    let ada = pull(
        &server,
        "create table t(id integer primary key, v text); create table u(id integer primary key, e text unique);
         insert into t values (1, 'a')",
        "alter table t add column m int; insert into u values (1, 'e')",
        "alter table t add column m text; insert into u values (2, 'e')",
    );
    let failed = merge(&ada, json!({"T": "ours"}));
    let detail = failed["error"]["detail"].as_str().unwrap();
    assert!(detail.starts_with("1 conflict in t, 2 in u; a side can be chosen for conflicts of rows"), "{detail}");
    assert!(detail.contains("(in t)") && detail.ends_with("then merge again"), "{detail}");
    assert_eq!(merge(&ada, json!({}))["error"]["detail"], "1 conflict in t, 2 in u");
}

#[test]
fn what_cannot_be_merged_at_all_is_told() {
    let server = Server::start();
    let base = "create table t(id integer primary key, v text); insert into t values (1, 'a')";
    let ada = pull(&server, base, "alter table t drop column v", "update t set v = 'b'");
    let refused = ada.get(&format!("{PULL}/conflicts")).expect(422);
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("the branches cannot be merged: "), "{detail}");
}

#[test]
fn rows_of_many_long_cells_are_cut_to_fit_an_answer() {
    let server = Server::start();
    let names: Vec<String> = (0..400).map(|n| format!("c{n}")).collect();
    let sets = |text: &str| {
        // All versions of the row together have to fit into the memory of one statement.
        let sets: Vec<String> =
            names.iter().map(|name| format!("{name} = replace(hex(zeroblob(10000)), '0', {text})")).collect();
        format!("update t set {}", sets.join(", "))
    };
    let ada = pull(
        &server,
        &format!("create table t(id integer primary key, {}); insert into t(id) values (1)", names.join(", ")),
        // A control character takes six bytes in JSON.
        &sets("char(1)"),
        &sets("char(2)"),
    );
    for path in [format!("{PULL}/diff"), format!("{PULL}/conflicts")] {
        let answer = ada.get(&path).expect(200);
        let row = &answer.data()[0];
        assert!(answer.text.len() < 16 << 20, "{path}: {}", answer.text.len());
        assert_eq!(row["truncated_columns"].as_array().unwrap().len(), 400, "{path}");
    }
    // The names of the columns alone can be too much.
    let huge = format!("create table w(id integer primary key, \"{}\")", "n".repeat(600_000));
    ada.write("ada/d", "main", &format!("{huge}; insert into w values (1, 1)"));
    let read = ada.post("/databases/ada/d/sql", &json!({"q": "select *, * from w"})).expect(200).data();
    assert_eq!(read["status"], "error");
    assert!(read["message"].as_str().unwrap().contains("the names of the columns have"), "{read}");
    let fits = ada.post("/databases/ada/d/sql", &json!({"q": "select * from w"})).expect(200);
    assert!(fits.text.len() < 16 << 20);
    assert_eq!(fits.data()["rows"], json!([["1", "1"]]));
}

#[test]
fn a_diff_of_large_rows_comes_in_pages_of_few() {
    let server = Server::start();
    let base = "create table t(id integer primary key, b)";
    let rows = "insert into t select value, zeroblob(3000000) from json_each('[1,2,3,4,5,6,7]')";
    let ada = pull(&server, base, "select 1", rows);
    let mut ids = Vec::new();
    let mut pages = 0;
    let mut token = String::new();
    loop {
        let answer = ada.get(&format!("{PULL}/diff?page_token={token}")).expect(200).json();
        for row in answer["data"].as_array().unwrap() {
            ids.push(row["primary_key"]["id"].as_str().unwrap().to_owned());
            assert_eq!(row["to"]["b"], "<binary>");
        }
        pages += 1;
        match answer["meta"]["next_page_token"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(ids, ["1", "2", "3", "4", "5", "6", "7"]);
    assert!(pages >= 3, "{pages}");
}
