//! Snapshots of all responses that the OpenAPI document declares: `snapshots/<operation>/<status>-<code or
//! success>[-detail].snap`.
//!
//! Rules (`rules.rs`) provoke the responses that most operations have in common. Steps (`steps.txt`) provoke the others. The
//! clock is fixed and ids are seeded, so only page tokens are redacted, because they are sealed with a random nonce.
//!
//! `INSTA_UPDATE=always cargo test -p branchyard-api-v2 --test it shapes` updates the snapshots. Review their differences as changes
//! of the public contract.

mod rules;
mod steps;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use actix_web::http::header::{ETAG, HeaderValue};
use branchyard_api_snapshots::{DeclaredOperation, ReceivedAnswer, SentRequest, ShapeSnapshot, uncovered};
use branchyard_api_testing::InProcessAnswer;
use serde_json::json;

/// Declared responses that cannot be provoked over the fakes, each with the reason.
const UNPROVOKED: &[(&str, &str, &str)] = &[
    (
        "listDiff",
        "422-UNPROCESSABLE",
        "all commits of a database descend from its first, so two always have a common one",
    ),
    ("listDiffTables", "422-UNPROCESSABLE", "as listDiff"),
];

fn operations() -> Vec<DeclaredOperation> {
    branchyard_api_snapshots::operations(include_str!("../../openapi/v2.json"), branchyard_api_v2::BASE)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots")
}

/// Returns `true` if the operation supports `Idempotency-Key`.
fn takes_keys(operation: &DeclaredOperation) -> bool {
    operation.parameters.iter().any(|name| name == "Idempotency-Key")
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

/// Returns the failure of a snapshot: a code that differs from its name, or a difference from the committed file.
fn fault(shape: &ShapeSnapshot) -> Option<String> {
    let (_, code) = shape.promise();
    let body = &shape.received.body;
    if code.chars().all(|c| c.is_ascii_uppercase() || c == '_') && body["code"] != code {
        return Some(format!("{}/{} is {body}", shape.operation, shape.name));
    }
    shape.fault(&folder(), |name, shown| insta::assert_json_snapshot!(name, shown))
}

#[actix_web::test]
async fn every_shape_is_as_committed() {
    let mut shapes = Vec::new();
    for told in steps::all() {
        shapes.push(steps::play(&told).await);
    }
    let told: BTreeSet<(String, String)> =
        shapes.iter().map(|shape| (shape.operation.clone(), shape.name.clone())).collect();
    for operation in operations() {
        for declared in &operation.declared {
            let name = declared.name();
            let by_steps = told.contains(&(operation.id.clone(), name.clone()));
            let by_key = takes_keys(&operation) && declared.code.as_deref() == Some("CONFLICT");
            if !by_steps && !by_key && !is_unprovoked(&operation.id, &name) {
                shapes.push(rules::provoke(&operation, declared).await);
            }
        }
        if takes_keys(&operation) {
            shapes.push(rules::key_in_flight(&operation).await);
        }
    }
    let faults: Vec<String> = shapes.iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{} shapes are wrong:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_declared_answer_has_a_snapshot() {
    let missing = uncovered(&operations(), &folder(), UNPROVOKED);
    assert!(missing.is_empty(), "{missing:#?}\n  fix: see shapes.rs");
}

fn is_unprovoked(id: &str, name: &str) -> bool {
    UNPROVOKED.iter().any(|(of, what, _)| *of == id && *what == name)
}
