//! Imports of SQL scripts.

use branchyard_testkit::Server;
use serde_json::{Value, json};

use crate::files;

fn fields(table: &str, operation: &str) -> Value {
    json!({"table_name": table, "import_operation": operation})
}

#[test]
fn the_operation_prepares_the_table() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("d");
    let run = |table: &str, operation: &str, script: &str| {
        ada.import("ada/d", "sql", script.as_bytes(), 1, &fields(table, operation))
    };
    let code = |done: Value| done["error"]["code"].as_str().unwrap_or("").to_owned();
    assert_eq!(code(run("people", "update", "select 1")), "NOT_FOUND");
    assert_eq!(code(run("people", "replace", "select 1")), "NOT_FOUND");
    let created = run("people", "create", files::SCRIPT);
    assert_eq!(created["status"], "succeeded", "{created}");
    assert_eq!(code(run("PEOPLE", "create", files::SCRIPT)), "CONFLICT");
    ada.write("ada/d", "main", "create table pets (owner references people); insert into pets values (3)");
    let replaced = run("people", "replace", "insert into people values (3, 'Carol')");
    assert_eq!(replaced["status"], "succeeded", "{replaced}");
    let broken = run("people", "replace", "insert into people values (4, 'Dan')");
    assert!(broken["error"]["detail"].as_str().unwrap().contains("FOREIGN KEY"), "{broken}");
    assert_eq!(ada.read("ada/d", "main", "select name from people"), json!([["Carol"]]));
    let overwritten = run("people", "overwrite", files::SCRIPT);
    assert_eq!(overwritten["status"], "succeeded", "{overwritten}");
    let left = run("other", "create", "create table another (a)");
    assert_eq!(left["error"]["detail"], "the script does not create the table 'other'");
    let any = run("", "create", "create table another (a); delete from pets");
    assert_eq!(any["status"], "succeeded", "{any}");
    assert_eq!(ada.read("ada/d", "main", "show tables"), json!([["another"], ["people"], ["pets"]]));
    let same = run("", "replace", "select 1");
    assert_eq!(same["result"]["commit_sha"], any["result"]["commit_sha"], "nothing changed");
}

#[test]
fn a_statement_that_fails_is_named_by_its_line() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("d");
    for (script, line, detail) in [
        ("create table t(a);\n\ninsert into\n  nowhere values (1);", 3, "query error: table not found: nowhere"),
        ("create table t(a);\nCOMMIT;", 2, "query error: statement not allowed: COMMIT"),
        ("\npragma foreign_keys = off;", 2, "query error: statement not allowed: pragma"),
        ("create table t(a);\nattach 'x' as y;", 2, "query error: statement not allowed: attach"),
        ("create table t(a);\nselct 1;", 2, "query error: Error parsing SQL: syntax error at position 6 near 'selct'."),
        ("create table t(a);\nselect '\0';", 2, ""),
        ("-- nothing", 1, "query error: Error parsing SQL: syntax error at position 11 near ''."),
    ] {
        let failed = ada.import("ada/d", "sql", script.as_bytes(), 1, &fields("t", "create"));
        let error = &failed["error"];
        assert_eq!(
            (&error["code"], &error["errors"][0]["line"]),
            (&json!("OPERATION_FAILED"), &json!(line)),
            "{failed}"
        );
        if !detail.is_empty() {
            assert_eq!(error["errors"][0]["detail"], detail, "{failed}");
            assert_eq!(error["detail"], format!("line {line}: {detail}"));
        }
    }
    assert_eq!(ada.read("ada/d", "main", "show tables"), json!([]));
}

#[test]
fn keys_and_column_maps_are_not_for_scripts() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("d");
    let wrong = json!({"primary_keys": ["id"], "column_map": {"a": "b"}, "table_name": ""});
    let body = ada.upload("ada/d", "sql", b"select 1", 1, &wrong);
    let refused = ada.post("/databases/ada/d/imports", &body).expect(400).json();
    let pointers: Vec<_> = refused["errors"].as_array().unwrap().iter().map(|e| e["pointer"].clone()).collect();
    assert_eq!(pointers, [json!("/primary_keys"), json!("/column_map")], "{refused}");
}

#[test]
fn a_long_script_is_read_in_pieces() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("d");
    let mut script = "create table t(n integer primary key, text);\n".to_owned();
    for n in 0..20_000 {
        script.push_str(&format!("insert into t values ({n}, 'some text; or -- other {n}');\n"));
    }
    // Longer than a statement of a SQL write may be.
    let long = "x".repeat(3 << 20);
    script.push_str(&format!("insert into t values (-1, '{long}')"));
    let done = ada.import("ada/d", "sql", script.as_bytes(), 5, &fields("t", "create"));
    assert_eq!(done["status"], "succeeded", "{done}");
    let found = ada.read("ada/d", "main", "select count(*), max(length(text)) from t");
    assert_eq!(found, json!([["20001", (3 << 20).to_string()]]));
}
