//! Edits of rows by key, over HTTP.

use branchyard_testkit::{Actor, Server};
use serde_json::{Value, json};

const EDITS: &str = "/databases/ada/d/tables/t/edits";

/// Creates a table with two rows, and returns the head.
fn with_rows(server: &Server) -> (Actor, String) {
    let ada = server.user("ada");
    ada.database("d");
    let head = ada.write(
        "ada/d",
        "main",
        "create table t(id integer primary key, name text, km real, pic blob, note); \
         insert into t values (1, 'Rhein', 1233.5, x'00ff', null), (2, 'Elbe', 1094.0, null, 'x')",
    );
    (ada, head)
}

fn edit(ada: &Actor, base: &str, rows: Value) -> Value {
    ada.finish(&ada.post(EDITS, &json!({"branch": "main", "base": base, "rows": rows})))
}

fn rows(ada: &Actor, branch: &str) -> Value {
    ada.read("ada/d", branch, "select id, name, km, hex(pic), note from t order by id")
}

#[test]
fn rows_are_changed_added_and_removed_in_one_commit() {
    let server = Server::start();
    let (ada, base) = with_rows(&server);
    let changes = json!([
        {"op": "update", "key": {"id": 1}, "set": {"name": "O'Rhine \"x\"; drop table t", "km": 1230, "pic": {"base64": "AQI="}}},
        {"op": "delete", "key": {"id": "2"}},
        {"op": "insert", "set": {"id": "3", "name": null, "km": "7.5"}},
    ]);
    let done = edit(&ada, &base, changes);
    assert_eq!((&done["type"], &done["status"]), (&json!("edit"), &json!("succeeded")), "{done}");
    let wanted = json!([["1", "O'Rhine \"x\"; drop table t", "1230.0", "0102", null], ["3", null, "7.5", "", null]]);
    assert_eq!(rows(&ada, "main"), wanted);
    let log = ada.get("/databases/ada/d/commits").data();
    assert_eq!(
        (&log[0]["message"], &log[1]["sha"]),
        (&json!("Edit 3 rows of t"), &json!(base)),
        "one commit on the head"
    );
    let listed = ada.get("/databases/ada/d/operations?type=edit").data();
    assert_eq!(listed[0]["result"], done["result"]);

    // On a branch of its own, with a message, by the first digits of the base.
    let body = json!({
        "branch": "main", "to_branch": "fix", "base": log[0]["sha"].as_str().unwrap()[..8], "message": "Correct the Rhine",
        "rows": [{"op": "update", "key": {"ID": 1}, "set": {"NAME": "Rhine"}}],
    });
    assert_eq!(ada.finish(&ada.post(EDITS, &body))["status"], "succeeded");
    assert_eq!(rows(&ada, "fix")[0][1], "Rhine");
    assert_eq!(rows(&ada, "main"), wanted);
    assert_eq!(ada.get("/databases/ada/d/commits?ref=fix").data()[0]["message"], "Correct the Rhine");
}

#[test]
fn cells_that_others_changed_are_not_overwritten() {
    let server = Server::start();
    let (ada, base) = with_rows(&server);
    ada.write("ada/d", "main", "update t set name = 'Rhine', note = 'theirs' where id = 1; delete from t where id = 2; insert into t(id, name) values (9, 'Lech')");
    let head = ada.get("/databases/ada/d/branches/main").data()["head_commit_sha"].clone();

    let failed = edit(
        &ada,
        &base,
        json!([
            {"op": "update", "key": {"id": 1}, "set": {"name": "Rhin", "km": 1}},
            {"op": "update", "key": {"id": 2}, "set": {"name": "Labe"}},
            {"op": "insert", "set": {"id": 9, "name": "Inn"}},
        ]),
    );
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!("MERGE_CONFLICT")), "{failed}");
    let errors = &failed["error"]["errors"];
    assert_eq!(
        errors[0],
        json!({"line": 1, "column": "name", "detail": "was 'Rhein' at the base, is 'Rhine' now, and would become 'Rhin'"})
    );
    assert_eq!(
        errors[1],
        json!({"line": 2, "column": "name", "detail": "was 'Elbe' at the base, is nothing now, and would become 'Labe'"})
    );
    assert_eq!(
        errors[2],
        json!({"line": 3, "column": "name", "detail": "was nothing at the base, is 'Lech' now, and would become 'Inn'"})
    );
    assert_eq!(errors.as_array().unwrap().len(), 3, "{errors}");
    let failed = edit(&ada, &base, json!([{"op": "delete", "key": {"id": 1}}]));
    let errors = &failed["error"]["errors"];
    assert_eq!(errors[0]["column"], "name", "{errors}");
    assert_eq!(errors.as_array().unwrap().len(), 2, "both cells of the deleted row that changed: {errors}");
    assert_eq!(ada.get("/databases/ada/d/branches/main").data()["head_commit_sha"], head, "nothing was changed");

    // Cells that others left alone, the same value, and a row that both sides removed are no conflicts.
    let done = edit(
        &ada,
        &base,
        json!([
            {"op": "update", "key": {"id": 1}, "set": {"name": "Rhine", "km": 1}},
            {"op": "delete", "key": {"id": 2}},
        ]),
    );
    assert_eq!(done["status"], "succeeded", "{done}");
    assert_eq!(rows(&ada, "main")[0], json!(["1", "Rhine", "1.0", "00FF", "theirs"]));
}

#[test]
fn edits_that_do_not_fit_the_table_are_refused() {
    let server = Server::start();
    let (ada, base) = with_rows(&server);
    ada.write("ada/d", "main", "create table loose(a, b); create view v as select 1 as one; create table two(a text, b text, c int check (c > 0), primary key (a, b))");
    let head = ada.get("/databases/ada/d/branches/main").data()["head_commit_sha"].clone();
    let post = |table: &str, base: &Value, rows: Value| {
        ada.post(
            &format!("/databases/ada/d/tables/{table}/edits"),
            &json!({"branch": "main", "base": base, "rows": rows}),
        )
    };
    let pointers = |answer: branchyard_testkit::TestAnswer| -> Vec<String> {
        let json = answer.json();
        json["errors"].as_array().unwrap().iter().map(|error| error["pointer"].as_str().unwrap().to_owned()).collect()
    };
    let update = |key: Value, set: Value| json!([{"op": "update", "key": key, "set": set}]);
    let wrong = json!([
        {"op": "update", "key": {"id": 1}, "set": {"nope": 1, "a/b": 2}},
        {"op": "update", "key": {"name": "x"}, "set": {"km": 1}},
        {"op": "update", "key": {"id": 1}, "set": {}},
        {"op": "delete", "key": {}},
    ]);
    let found = pointers(post("t", &head, wrong).expect(422));
    assert_eq!(
        found,
        ["/rows/0/set/a~1b", "/rows/0/set/nope", "/rows/1/key/name", "/rows/1/key", "/rows/2/set", "/rows/3/key"]
    );
    assert_eq!(pointers(post("two", &head, update(json!({"a": "x"}), json!({"c": 1}))).expect(422)), ["/rows/0/key"]);
    assert_eq!(pointers(post("loose", &head, update(json!({"a": 1}), json!({"b": 1}))).expect(422)), ["/rows/0/key"]);
    let malformed = json!([
        {"op": "insert", "key": {"id": 1}, "set": {"name": true, "km": {"base64": "?"}, "NAME": "twice"}},
        {"op": "nope"},
        {"op": "delete", "key": {"id": [1]}, "set": {"name": "x"}},
        {"op": "update"},
        {"op": "insert"},
    ]);
    let found = pointers(post("t", &head, malformed).expect(400));
    for pointer in [
        "/rows/0/set/name",
        "/rows/0/set/km",
        "/rows/1/op",
        "/rows/2/key/id",
        "/rows/3/key",
        "/rows/3/set",
        "/rows/4/set",
    ] {
        assert!(found.iter().any(|found| found == pointer), "{pointer} in {found:?}");
    }
    post("t", &head, json!([])).expect(400);
    post("t", &json!("0".repeat(40)), update(json!({"id": 1}), json!({"name": "x"}))).expect(404);
    for table in ["v", "gone"] {
        post(table, &head, update(json!({"id": 1}), json!({"name": "x"}))).expect(404);
    }
    post("loose", &json!(base), json!([{"op": "insert", "set": {"a": 1}}])).expect(404);

    // Ones that the table refuses fail as a whole.
    let absent = edit(
        &ada,
        &base,
        json!([
            {"op": "update", "key": {"id": 1}, "set": {"name": "x"}},
            {"op": "delete", "key": {"id": 7}},
        ]),
    );
    assert_eq!(absent["error"]["code"], "OPERATION_FAILED");
    assert_eq!(absent["error"]["errors"][0]["line"], 2, "{absent}");
    let done =
        ada.finish(&post("loose", &head, json!([{"op": "insert", "set": {"a": 1}}, {"op": "insert", "set": {}}])));
    assert_eq!(done["status"], "succeeded", "{done}");
    let refused = ada.finish(&post("two", &head, json!([{"op": "insert", "set": {"a": "x", "b": "y", "c": 0}}])));
    assert!(refused["error"]["detail"].as_str().unwrap().contains("CHECK constraint failed"), "{refused}");
    let again = edit(&ada, &base, json!([{"op": "insert", "set": {"id": 1}}]));
    assert_eq!(again["error"]["code"], "OPERATION_FAILED", "{again}");
    assert_eq!(rows(&ada, "main")[0][1], "Rhein");
}

#[test]
fn a_row_is_named_once() {
    let server = Server::start();
    let (ada, base) = with_rows(&server);
    for second in [
        json!({"op": "update", "key": {"id": "1"}, "set": {"name": "lost"}}),
        json!({"op": "delete", "key": {"id": 1}}),
    ] {
        let first = json!({"op": "update", "key": {"id": 1}, "set": {"id": 8}});
        let other = json!({"op": "update", "key": {"id": 2}, "set": {"km": 1}});
        let failed = edit(&ada, &base, json!([first, other, second]));
        assert_eq!(failed["error"]["code"], "OPERATION_FAILED", "{failed}");
        let detail = "row 1 of the request has the same key; put all changes of a row together";
        assert_eq!(failed["error"]["errors"], json!([{"line": 3, "detail": detail}]));
    }
    // A new row may have the key of a removed one.
    let done = edit(
        &ada,
        &base,
        json!([{"op": "delete", "key": {"id": 1}}, {"op": "insert", "set": {"id": 1, "name": "new"}}]),
    );
    assert_eq!(done["status"], "succeeded", "{done}");
    assert_eq!(rows(&ada, "main")[0][1], "new");
}

#[test]
fn a_thousand_cells_are_edited_in_a_second_and_ten_thousand_rows_are_the_most() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("d");
    let base = ada.write(
        "ada/d",
        "main",
        "create table t(id integer primary key, name text); with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) \
         insert into t select i, 'row ' || i from n",
    );
    let update = |n: usize| json!({"op": "update", "key": {"id": n}, "set": {"name": format!("edited {n}")}});
    let began = std::time::Instant::now();
    let done = edit(&ada, &base, (1..=1_000).map(update).collect());
    println!("1,000 cells: {:?}", began.elapsed());
    assert_eq!(done["status"], "succeeded", "{done}");
    // In the middle of a table that others write to.
    let done = edit(&ada, &base, (5_001..=15_000).map(update).collect());
    assert_eq!(done["status"], "succeeded", "{done}");
    let count = ada.read("ada/d", "main", "select count(*) from t where name like 'edited %'");
    assert_eq!(count, json!([["11000"]]));
    let too_many: Value = (1..=10_001).map(update).collect();
    let refused = ada.post(EDITS, &json!({"branch": "main", "base": base, "rows": too_many})).expect(400);
    assert_eq!(refused.json()["errors"][0]["pointer"], "/rows");
}

#[test]
fn an_edit_shows_nothing_of_a_commit_that_is_hidden() {
    let server = Server::start();
    let (ada, _) = with_rows(&server);
    ada.post("/databases/ada/d/branches", &json!({"name": "side", "from": {"branch": "main"}})).expect(201);
    let hidden = ada.write("ada/d", "side", "insert into t(id, name) values (77, 'secret')");
    ada.delete("/databases/ada/d/branches/side").expect(200);
    for base in [hidden.as_str(), &hidden[..8]] {
        let body = json!({"branch": "main", "base": base, "rows": [{"op": "update", "key": {"id": 77}, "set": {"name": "x"}}]});
        let refused = ada.post(EDITS, &body).expect(404);
        assert!(!refused.text.contains("secret"));
    }
    let ben = server.user("ben");
    ben.post(EDITS, &json!({"branch": "main", "base": hidden, "rows": []})).expect(403);
}
