//! Compares every response that the OpenAPI document declares with a snapshot in
//! `snapshots/<operation>/<status>-<name>[-detail].snap`. The name is the key of the document's example. The text of a refusal must
//! begin like the summary of its example.
//!
//! Rules provoke the responses that most operations have in common (rules.rs). The other responses are provoked step by step
//! (steps.txt). The clock is fixed and ids are seeded, so that only page tokens are redacted; they contain a random nonce.
//!
//! `INSTA_UPDATE=always cargo test -p branchyard-api-v1alpha1 --test it shapes` writes the files. Review each difference as a
//! change of a frozen contract.

mod rules;
mod steps;

use std::collections::BTreeSet;
use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};

use branchyard_api_snapshots::{DeclaredOperation, ReceivedAnswer, SentRequest, ShapeSnapshot, uncovered};
use branchyard_api_testing::InProcessAnswer;
use serde_json::{Value, json};

/// The id of every request, so that no snapshot depends on the number of earlier requests.
const ID: (&str, &str) = ("X-Request-Id", "snapshot");

fn operations() -> Vec<DeclaredOperation> {
    branchyard_api_snapshots::operations(include_str!("../../openapi/v1alpha1.json"), "")
}

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

/// Returns the fault of a response, if its text or its snapshot is wrong.
fn fault(operations: &[DeclaredOperation], shape: &ShapeSnapshot) -> Option<String> {
    let (status, name) = shape.promise();
    let declared = operations.iter().filter(|operation| operation.id == shape.operation);
    let declared = declared.flat_map(|operation| &operation.declared);
    let promised = declared.filter(|declared| declared.status == status && declared.code.as_deref() == Some(name));
    let body = &shape.received.body;
    let said = body["message"].as_str().or(body["query_execution_message"].as_str()).unwrap_or_default();
    for text in promised.map(|declared| &declared.summary).filter(|_| status >= 400) {
        let fits = match text.split_once('<') {
            Some((begin, _)) => said.starts_with(begin),
            None => said == text,
        };
        if !fits {
            return Some(format!("{}/{} does not say {text:?}: {body}", shape.operation, shape.name));
        }
    }
    shape.fault(&folder(), |name, shown| insta::assert_json_snapshot!(name, shown))
}

#[actix_web::test]
async fn every_shape_is_as_committed() {
    let operations = operations();
    let mut shapes = Vec::new();
    for told in steps::all() {
        shapes.push(steps::play(&operations, &told).await);
    }
    let told: BTreeSet<(String, String)> =
        shapes.iter().map(|shape| (shape.operation.clone(), shape.name.clone())).collect();
    for operation in &operations {
        for declared in &operation.declared {
            if !told.contains(&(operation.id.clone(), declared.name())) {
                shapes.push(rules::provoke(operation, declared).await);
            }
        }
    }
    let faults: Vec<String> = shapes.iter().filter_map(|shape| fault(&operations, shape)).collect();
    assert!(faults.is_empty(), "{} shapes are wrong:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_declared_answer_has_a_snapshot() {
    let missing = uncovered(&operations(), &folder(), &[]);
    assert!(missing.is_empty(), "{missing:#?}\n  fix: see shapes.rs");
}
