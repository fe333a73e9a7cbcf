//! Snapshots of all responses that the OpenAPI document declares: `snapshots/<operation>/<status>-<code or
//! success>[-detail].snap`.
//!
//! Rules (`rules.rs`) provoke the responses that most operations have in common. Steps (`steps.txt`) provoke the others. The
//! clock is fixed and ids are seeded, so only page tokens are redacted, because they are sealed with a random nonce.
//!
//! Every snapshot is a test of its own, such as `shapes::createTag_201_success`. The tests are made from the document and
//! `steps.txt`, so that a new answer needs no line here.
//!
//! `INSTA_UPDATE=always cargo test -p branchyard-api-v2 --test it shapes` updates the snapshots. Review their differences as changes
//! of the public contract.

mod rules;
mod steps;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use actix_web::http::header::{ETAG, HeaderValue};
use branchyard_api_snapshots::{
    Block, Declared, DeclaredOperation, ReceivedAnswer, SentRequest, ShapeSnapshot, blocks, uncovered,
};
use branchyard_api_snapshots_macros::snapshot_tests;
use branchyard_api_testing::InProcessAnswer;
use serde_json::json;

/// The name of a further snapshot of each operation that supports `Idempotency-Key`.
const KEY_IN_FLIGHT: &str = "409-CONFLICT-key-in-flight";

static OPERATIONS: LazyLock<Vec<DeclaredOperation>> = LazyLock::new(|| {
    branchyard_api_snapshots::operations(include_str!("../../openapi/v2.json"), branchyard_api_v2::BASE)
});

static STEPS: LazyLock<Vec<Block>> = LazyLock::new(|| blocks(include_str!("shapes/steps.txt")));

fn operation(id: &str) -> &'static DeclaredOperation {
    OPERATIONS.iter().find(|operation| operation.id == id).unwrap_or_else(|| panic!("{id} is not in the document"))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots")
}

fn shape(operation: &str, name: String, asked: SentRequest, answer: InProcessAnswer) -> ShapeSnapshot {
    let mut body = match answer.header("content-type") {
        "application/json" | "application/problem+json" => answer.json(),
        _ => json!(answer.text),
    };
    if let Some(token) = body.pointer_mut("/meta/next_page_token") {
        *token = json!("[a page token]");
    }
    let InProcessAnswer { status, mut headers, .. } = answer;
    // The snapshot omits the document, which is committed separately.
    if asked.address == "/openapi.json" && status < 400 {
        headers.insert(ETAG, HeaderValue::from_static("[changes with the document]"));
        body = body.get("openapi").map_or(json!(""), |version| json!({"openapi": version}));
    }
    ShapeSnapshot { operation: operation.to_owned(), name, asked, received: ReceivedAnswer { status, headers, body } }
}

#[snapshot_tests(
    document = "openapi/v2.json",
    steps = "tests/it/shapes/steps.txt",
    also = "Idempotency-Key: 409-CONFLICT-key-in-flight"
)]
fn assert_as_committed(operation: &str, name: &str) {
    let shape = actix_web::rt::System::new().block_on(provoke(operation, name));
    let (_, code) = shape.promise();
    let body = &shape.received.body;
    if code.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
        assert_eq!(body["code"], code, "{operation}/{name} is {body}");
    }
    shape.assert_as_committed(&folder(), |name, shown| insta::assert_json_snapshot!(name, shown));
}

async fn provoke(id: &str, name: &str) -> ShapeSnapshot {
    if let Some(block) = STEPS.iter().find(|block| block.operation == id && block.name == name) {
        return steps::play(block).await;
    }
    let operation = operation(id);
    if name == KEY_IN_FLIGHT {
        return rules::key_in_flight(operation).await;
    }
    let is_named = |declared: &&Declared| declared.name() == name;
    let declared = operation.declared.iter().find(is_named);
    rules::provoke(operation, declared.unwrap_or_else(|| panic!("{id} does not declare {name}"))).await
}

#[test]
fn every_declared_answer_has_a_snapshot() {
    let missing = uncovered(&OPERATIONS, &folder(), &STEPS);
    assert!(missing.is_empty(), "{missing:#?}\n  fix: see shapes.rs");
}
