//! Compares every response that the OpenAPI document declares with a snapshot in
//! `snapshots/<operation>/<status>-<name>[-detail].snap`. The name is the key of the document's example. The text of a refusal must
//! begin like the summary of its example.
//!
//! Rules provoke the responses that most operations have in common (rules.rs). The other responses are provoked step by step
//! (steps.txt). The clock is fixed and ids are seeded, so that only page tokens are redacted; they contain a random nonce.
//!
//! Every snapshot is a test of its own, such as `shapes::createTag_200_success`. The tests are made from the document and
//! `steps.txt`, so that a new answer needs no line here.
//!
//! `INSTA_UPDATE=always cargo test -p branchyard-api-v1alpha1 --test it shapes` writes the files. Review each difference as a
//! change of a frozen contract.

mod rules;
mod steps;

use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use branchyard_api_snapshots::{
    Block, Declared, DeclaredOperation, ReceivedAnswer, SentRequest, ShapeSnapshot, blocks, uncovered,
};
use branchyard_api_snapshots_macros::snapshot_tests;
use branchyard_api_testing::InProcessAnswer;
use serde_json::{Value, json};

/// The id of every request, so that no snapshot depends on the number of earlier requests.
const ID: (&str, &str) = ("X-Request-Id", "snapshot");

static OPERATIONS: LazyLock<Vec<DeclaredOperation>> =
    LazyLock::new(|| branchyard_api_snapshots::operations(include_str!("../../openapi/v1alpha1.json"), ""));

static STEPS: LazyLock<Vec<Block>> = LazyLock::new(|| blocks(include_str!("shapes/steps.txt")));

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots")
}

fn shape(operation: &str, name: String, asked: SentRequest, answer: InProcessAnswer) -> ShapeSnapshot {
    let mut body = match answer.header("content-type") {
        "application/zip" => unzipped(&answer.bytes),
        kind if kind.starts_with("application/json") => answer.json(),
        _ => json!(answer.text),
    };
    if let Some(token) = body.get_mut("next_page_token").filter(|token| **token != "") {
        *token = json!("[a page token]");
    }
    let InProcessAnswer { status, headers, .. } = answer;
    // The full document is committed separately.
    if operation == "getOpenapiDocument" && status == 200 {
        body = json!({"openapi": body["openapi"]});
    }
    ShapeSnapshot { operation: operation.to_owned(), name, asked, received: ReceivedAnswer { status, headers, body } }
}

/// Returns the files of an archive by name.
fn unzipped(bytes: &[u8]) -> Value {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut files = json!({});
    for at in 0..archive.len() {
        let mut file = archive.by_index(at).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let name = file.name().unwrap().into_owned();
        files[name] = text.into();
    }
    files
}

#[snapshot_tests(document = "openapi/v1alpha1.json", steps = "tests/it/shapes/steps.txt")]
fn assert_as_committed(id: &str, name: &str) {
    let operation = OPERATIONS.iter().find(|operation| operation.id == id);
    let operation = operation.unwrap_or_else(|| panic!("{id} is not in the document"));
    let shape = actix_web::rt::System::new().block_on(provoke(operation, name));
    let (status, code) = shape.promise();
    let body = &shape.received.body;
    let said = body["message"].as_str().or(body["query_execution_message"].as_str()).unwrap_or_default();
    let promised = |declared: &&Declared| declared.status == status && declared.code.as_deref() == Some(code);
    for text in operation.declared.iter().filter(promised).map(|declared| &declared.summary).filter(|_| status >= 400) {
        let fits = match text.split_once('<') {
            Some((begin, _)) => said.starts_with(begin),
            None => said == text,
        };
        assert!(fits, "{id}/{name} does not say {text:?}: {body}");
    }
    shape.assert_as_committed(&folder(), |name, shown| insta::assert_json_snapshot!(name, shown));
}

async fn provoke(operation: &DeclaredOperation, name: &str) -> ShapeSnapshot {
    let id = &operation.id;
    if let Some(block) = STEPS.iter().find(|block| block.operation == *id && block.name == name) {
        return steps::play(operation, block).await;
    }
    let declared = operation.declared.iter().find(|declared| declared.name() == name);
    rules::provoke(operation, declared.unwrap_or_else(|| panic!("{id} does not declare {name}"))).await
}

#[test]
fn every_declared_answer_has_a_snapshot() {
    let missing = uncovered(&OPERATIONS, &folder(), &STEPS);
    assert!(missing.is_empty(), "{missing:#?}\n  fix: see shapes.rs");
}
