//! Every file type, from the upload to the rows.

use branchyard_testkit::{Actor, Server};
use serde_json::{Value, json};

use crate::files;

fn people(ada: &Actor, at: &str) -> Value {
    ada.read("ada/d", at, "select id, name from people order by id")
}

fn expected() -> Value {
    json!(files::PEOPLE.map(|(id, name)| json!([id.to_string(), name])))
}

fn key_of(file_type: &str) -> Value {
    if file_type == "sql" { json!([]) } else { json!(["id"]) }
}

/// Returns how many files of imports are left in the data folder.
fn left_behind(server: &Server) -> usize {
    let count = |folder: &str| std::fs::read_dir(server.dir.path().join("data").join(folder)).unwrap().count();
    count("uploads") + count("databases/tmp")
}

#[test]
fn every_type_makes_the_same_table() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("d");
    for (file_type, file) in files::all() {
        let branch = format!("from-{file_type}");
        let fields = json!({
            "table_name": "people", "file_name": "people", "primary_keys": key_of(file_type),
            "pull_request_branch_name": branch, "commit_message": format!("People from {file_type}\n\nAll three."),
        });
        let done = ada.import("ada/d", file_type, &file, 7, &fields);
        assert_eq!(done["status"], "succeeded", "{file_type}: {done}");
        assert_eq!(people(&ada, &branch), expected(), "{file_type}");
        let number = done["result"]["pull_id"].clone();
        let pull = ada.get(&format!("/databases/ada/d/pulls/{number}")).expect(200).data();
        assert_eq!(pull["title"], json!(format!("People from {file_type}")), "{done}");
        let columns = ada.read("ada/d", &branch, "select name, upper(type), pk from pragma_table_info('people')");
        assert_eq!(columns, json!([["id", "INTEGER", "1"], ["name", "TEXT", "0"]]), "{file_type}");
    }
    assert_eq!(left_behind(&server), 0);
}

#[test]
fn every_type_updates_and_replaces() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("d");
    let table = "create table people (id integer primary key, name text, note text default 'new');
        insert into people values (2, 'before', 'kept'), (9, 'nine', 'kept')";
    for (file_type, file) in files::all() {
        if file_type == "sql" {
            continue;
        }
        ada.write("ada/d", "main", &format!("drop table if exists people; {table}"));
        let fields = json!({"table_name": "PEOPLE", "import_operation": "update", "column_map": {}});
        let done = ada.import("ada/d", file_type, &file, 1, &fields);
        assert_eq!(done["status"], "succeeded", "{file_type}: {done}");
        let notes = ada.read("ada/d", "main", "select id, note from people order by id");
        assert_eq!(notes, json!([["1", "new"], ["2", "kept"], ["3", "new"], ["9", "kept"]]), "{file_type}");

        let same = ada.import("ada/d", file_type, &file, 1, &fields);
        assert_eq!(same["result"]["commit_sha"], done["result"]["commit_sha"], "{file_type}: nothing changed");

        let fields = json!({
            "table_name": "people", "import_operation": "replace", "primary_keys": ["ID"], "column_map": {"NAME": "note"},
        });
        let done = ada.import("ada/d", file_type, &file, 1, &fields);
        assert_eq!(done["status"], "succeeded", "{file_type}: {done}");
        let rows = ada.read("ada/d", "main", "select id, name, note from people order by id");
        assert_eq!(rows, json!(files::PEOPLE.map(|(id, name)| json!([id.to_string(), null, name]))), "{file_type}");

        let fields = json!({"table_name": "people", "import_operation": "create"});
        let refused = ada.import("ada/d", file_type, &file, 1, &fields);
        assert_eq!(refused["error"]["code"], "CONFLICT", "{file_type}: {refused}");
        let fields = json!({"table_name": "nowhere", "import_operation": "update"});
        let refused = ada.import("ada/d", file_type, &file, 1, &fields);
        assert_eq!(refused["error"]["code"], "NOT_FOUND", "{file_type}: {refused}");
        let fields = json!({"table_name": "people", "import_operation": "overwrite", "primary_keys": ["name"]});
        let done = ada.import("ada/d", file_type, &file, 1, &fields);
        assert_eq!(done["status"], "succeeded", "{file_type}: {done}");
        let columns = ada.read("ada/d", "main", "select name, pk from pragma_table_info('people')");
        assert_eq!(columns, json!([["id", "0"], ["name", "1"]]), "{file_type}");
    }
    server.hub().operations().tidy().unwrap();
    assert_eq!(left_behind(&server), 0);
}

#[test]
fn values_keep_their_kind() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("d");
    let file = r#"{"i": 1, "r": 1, "t": "007", "b": true, "o": {"x": [1, null]}}
{"r": 2.5, "t": 8, "i": null, "late": "x"}"#;
    let done = ada.import("ada/d", "json", file.as_bytes(), 1, &json!({}));
    assert_eq!(done["status"], "succeeded", "{done}");
    let rows = ada.read("ada/d", "main", "select i, r, typeof(r), t, b, o, late from t");
    assert_eq!(
        rows,
        json!([
            ["1", "1.0", "real", "007", "1", "{\"x\":[1,null]}", null],
            [null, "2.5", "real", "8", null, null, "x"]
        ])
    );
    let file = files::sqlite(
        "create table t (k text, n integer, v, primary key (n, k)) without rowid;
         insert into t values ('a', 1, 5), ('b', 1, 'five'), ('a', 2, x'05'), ('c', 3, 5.5)",
    );
    let done = ada.import("ada/d", "sqlite", &file, 2, &json!({"import_operation": "overwrite"}));
    assert_eq!(done["status"], "succeeded", "{done}");
    let kinds = ada.read("ada/d", "main", "select k, typeof(v), v from t order by n, k");
    assert_eq!(
        kinds,
        json!([["a", "integer", "5"], ["b", "text", "five"], ["a", "blob", "<binary>"], ["c", "real", "5.5"]])
    );
    let key = ada.read("ada/d", "main", "select name from pragma_table_info('t') where pk > 0 order by pk");
    assert_eq!(key, json!([["n"], ["k"]]), "the key of the source");
}

#[test]
fn wrong_files_change_nothing_and_say_where() {
    let server = Server::start_with(|config| config.imports.max_expanded_bytes = 1_024);
    let ada = server.user("ada");
    ada.database("d");
    let fails = |file_type: &str, file: &[u8], fields: Value| {
        let failed = ada.import("ada/d", file_type, file, 1, &fields);
        assert_eq!(failed["error"]["code"], "OPERATION_FAILED", "{file_type}: {failed}");
        assert_eq!(failed["error"]["status"], 422);
        failed["error"].clone()
    };
    let twice = b"[{\"id\":1},\n{\"id\":2},\n{\"id\":1},\n{\"id\":null}]";
    let error = fails("json", twice, json!({"primary_keys": ["id"]}));
    assert_eq!(
        error["errors"],
        json!([
            {"line": 3, "column": "id", "detail": "UNIQUE constraint failed: t.id"},
            {"line": 4, "column": "id", "detail": "NOT NULL constraint failed: t.id"},
        ])
    );
    assert_eq!(error["detail"], "line 3: column id: UNIQUE constraint failed: t.id");
    let many: String = (0..150).map(|_| "{\"a\":1,\"a\":2}\n").collect();
    assert_eq!(fails("json", many.as_bytes(), json!({}))["errors"].as_array().unwrap().len(), 100);
    let error = fails("yaml", b"- a: 1\n- a: *x\n", json!({}));
    assert_eq!(error["errors"][0]["line"], 2, "{error}");
    let mapped = json!({"column_map": {"zz": "a"}});
    assert!(fails("json", b"[{\"a\":1}]", mapped)["detail"].as_str().unwrap().contains("'zz'"));
    let mapped = json!({"column_map": {"a": "b"}});
    assert_eq!(fails("json", b"[{\"a\":1,\"b\":2}]", mapped)["detail"], "two columns go to 'b'");
    assert_eq!(fails("xlsx", &files::xlsx(), json!({}))["detail"], "the file expands to more than 1024 bytes");
    assert_eq!(fails("xlsx", b"PK no more", json!({}))["detail"], "not a workbook: it is not a zip archive");
    assert_eq!(fails("parquet", b"PAR1", json!({}))["detail"], "not a Parquet file");
    assert_eq!(fails("sqlite", b"SQLite format 2", json!({}))["detail"], "not a SQLite 3 database file");
    assert_eq!(ada.read("ada/d", "main", "show tables"), json!([]));
    server.hub().operations().tidy().unwrap();
    assert_eq!(left_behind(&server), 0, "files go with the failed operation");
}

#[test]
fn an_import_ends_with_its_time() {
    let server = Server::start_with(|config| config.imports.timeout_ms = 1);
    let ada = server.user("ada");
    ada.database("d");
    let json: String = (0..50_000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    let script: String = (0..50_000).map(|n| format!("insert into t values ({n});\n")).collect();
    let sqlite = files::sqlite(
        "create table t(n);
         with recursive c(n) as (values (1) union all select n + 1 from c where n < 50000) insert into t select n from c",
    );
    let script = format!("create table t(n);\n{script}");
    for (file_type, file) in [("json", json.into_bytes()), ("sql", script.into_bytes()), ("sqlite", sqlite)] {
        let failed = ada.import("ada/d", file_type, &file, 1, &json!({}));
        assert_eq!(failed["error"]["code"], "OPERATION_FAILED", "{file_type}: {failed}");
        assert_eq!(failed["error"]["detail"], "timed out after 1 ms", "{file_type}");
    }
    server.hub().operations().tidy().unwrap();
    assert_eq!(left_behind(&server), 0);
}
