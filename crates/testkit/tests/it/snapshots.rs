//! What docs/snapshot-testing.md recommends to other projects, with public items only.

use std::path::Path;

use branchyard_openapi_check::Checker;
use branchyard_testkit::{Server, TestAnswer};
use serde_json::{Value, json};

// docs: shapes
#[test]
fn the_shapes_our_client_reads() {
    let server = Server::deterministic();
    let ada = server.user("ada");
    ada.database("rivers");
    ada.write(
        "ada/rivers",
        "main",
        "CREATE TABLE gauges(id INTEGER PRIMARY KEY, level REAL); INSERT INTO gauges VALUES (4, 1.5)",
    );

    insta::assert_json_snapshot!("branches", shape(&ada.get("/databases/ada/rivers/branches")));
    insta::assert_json_snapshot!("read", shape(&ada.get("/databases/ada/rivers/sql?q=select%20*%20from%20gauges")));
    insta::assert_json_snapshot!("no_such_database", shape(&ada.get("/databases/ada/lakes")));
}

/// What a client depends on: the status, the headers it reads, the body.
fn shape(answer: &TestAnswer) -> Value {
    let mut body = answer.json();
    body.sort_all_objects();
    json!({"status": answer.status, "type": answer.header("content-type"), "body": body})
}
// docs: end

// docs: recorded
/// The document as the server publishes it, and what our client sends and has recorded.
#[test]
fn what_we_send_and_have_recorded_fits_the_document() {
    let server = Server::start();
    let document = server.anonymous().get("/openapi.json").expect(200).text;
    let checker = Checker::new(&document);

    let schema = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let sent = json!({"name": "feature/x", "from": {"branch": "main"}});
    checker.validate(&schema("CreateBranchRequest"), &sent).unwrap();
    let recorded = json!({"owner": "ada", "name": "rivers"});
    checker.validate(&schema("DatabaseRef"), &recorded).unwrap();

    // The document rejects a response with a renamed field.
    let renamed = json!({"owner": "ada", "title": "rivers"});
    assert!(checker.validate(&schema("DatabaseRef"), &renamed).is_err());
}
// docs: end

#[test]
fn every_run_gives_the_same() {
    let run = || {
        let server = Server::deterministic();
        let ada = server.user("ada");
        ada.database("rivers");
        ada.write("ada/rivers", "main", "CREATE TABLE t(id INTEGER PRIMARY KEY)");
        ada.write("ada/rivers", "main", "INSERT INTO t VALUES (1)");
        let below = ["", "/commits", "/branches", "/operations"];
        below.map(|rest| ada.get(&format!("/databases/ada/rivers{rest}")).expect(200).text)
    };
    assert_eq!(run(), run());
}

#[test]
fn the_page_shows_this_file() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/snapshot-testing.md");
    let page = std::fs::read_to_string(page).unwrap();
    let here = include_str!("snapshots.rs");
    for part in ["shapes", "recorded"] {
        let (_, rest) = here.split_once(&format!("// docs: {part}\n")).unwrap();
        let (code, _) = rest.split_once("// docs: end").unwrap();
        assert!(
            page.contains(&format!("```rust\n{code}```")),
            "docs/snapshot-testing.md shows another `{part}` than this file"
        );
    }
}
