//! The shape of every answer the OpenAPI document declares, as a snapshot: `snapshots/<operation>/<status>-<code or success>[-detail].snap`.
//!
//! What most operations have in common is provoked by rules (rules.rs); the rest is told step by step (steps.txt). The clock stands
//! still and ids are seeded, so nothing is redacted but page tokens, which are sealed with a random nonce.
//! `INSTA_UPDATE=always cargo test -p branchyard-api-v2 --test it shapes` writes the files; then review the difference as a change of the
//! public contract.

mod declared;
mod faults;
mod rules;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};

use crate::asked::Asked;
use crate::world::Answer;
use declared::{Declared, Operation};

/// Headers every answer has and no reader of a shape needs; the request id is in the problem.
const UNTOLD: &[&str] = &["vary", "x-request-id", "content-length"];

/// What is declared and cannot be provoked over the fakes.
const UNPROVOKED: &[(&str, &str, &str)] = &[
    (
        "listDiff",
        "422-UNPROCESSABLE",
        "all commits of a database descend from its first, so two always have a common one",
    ),
    ("listDiffTables", "422-UNPROCESSABLE", "as listDiff"),
];

/// A snapshot to be: its operation and name, what was asked, what came.
struct Shape {
    operation: String,
    name: String,
    asked: Asked,
    answer: Answer,
}

impl Shape {
    /// What is wrong with it: it is not what its name says, or not as committed, where insta has told the difference.
    fn fault(&self) -> Option<String> {
        let Self { operation, name, asked, answer } = self;
        let (status, code) = declared::promise(name);
        if answer.status != status || code.is_some_and(|code| answer.json()["code"] != code) {
            return Some(format!("{operation}/{name} is {} {}", answer.status, answer.text));
        }
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(format!("snapshots/{operation}"));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.set_sort_maps(true);
        settings.set_info(&asked.shown());
        let shown = shown(asked, answer);
        let compare = || catch_unwind(AssertUnwindSafe(|| insta::assert_json_snapshot!(name.as_str(), shown)));
        settings.bind(compare).err().map(|_| format!("{operation}/{name} differs from its snapshot"))
    }
}

fn shown(asked: &Asked, answer: &Answer) -> Value {
    let mut headers: BTreeMap<String, Value> = answer
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), json!(value.to_str().unwrap())))
        .filter(|(name, _)| !UNTOLD.contains(&name.as_str()) && !name.starts_with("access-control-"))
        .collect();
    let kind = answer.header("content-type");
    let mut body = match kind {
        "application/json" | "application/problem+json" => answer.json(),
        _ => json!(answer.text),
    };
    if let Some(token) = body.pointer_mut("/meta/next_page_token") {
        *token = json!("[a page token]");
    }
    // The document itself is committed in full.
    if asked.address == "/openapi.json" && answer.status < 400 {
        headers.insert("etag".to_owned(), json!("[changes with the document]"));
        body = body.get("openapi").map_or(json!(""), |version| json!({"openapi": version}));
    }
    json!({"status": answer.status, "headers": headers, "body": body})
}

#[actix_web::test]
async fn every_shape_is_as_committed() {
    let mut shapes = Vec::new();
    for told in steps::all() {
        shapes.push(told.play().await);
    }
    let told: BTreeSet<(String, String)> =
        shapes.iter().map(|shape| (shape.operation.clone(), shape.name.clone())).collect();
    for operation in declared::operations() {
        for declared in &operation.declared {
            let name = declared.name();
            let by_steps = told.contains(&(operation.id.clone(), name.clone()));
            let by_key = operation.takes_keys && declared.code.as_deref() == Some("CONFLICT");
            if !by_steps && !by_key && !is_unprovoked(&operation.id, &name) {
                shapes.push(rules::provoke(&operation, declared).await);
            }
        }
        if operation.takes_keys {
            shapes.push(rules::key_in_flight(&operation).await);
        }
    }
    let faults: Vec<String> = shapes.iter().filter_map(Shape::fault).collect();
    assert!(faults.is_empty(), "{} shapes are wrong:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_declared_answer_has_a_snapshot() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots");
    let names = |folder: &std::path::Path| -> BTreeSet<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let operations = declared::operations();
    let mut missing = Vec::new();
    for Operation { id, declared, .. } in &operations {
        let there = names(&folder.join(id));
        let covered = |name: &str| {
            there
                .iter()
                .filter_map(|file| file.strip_suffix(".snap"))
                .any(|file| file.strip_prefix(name).is_some_and(|detail| detail.is_empty() || detail.starts_with('-')))
        };
        let lacking = declared.iter().map(Declared::name).filter(|name| !covered(name) && !is_unprovoked(id, name));
        missing.extend(lacking.map(|name| format!("{id}/{name}")));
    }
    assert!(missing.is_empty(), "no snapshot of {missing:#?}\n  fix: see shapes.rs");
    let known: BTreeSet<String> = operations.into_iter().map(|operation| operation.id).collect();
    let stray: Vec<String> = names(&folder).difference(&known).cloned().collect();
    assert!(stray.is_empty(), "snapshots of operations that are not in the document: {stray:?}");
}

#[test]
fn what_is_not_provoked_is_declared() {
    let operations = declared::operations();
    for (id, name, _) in UNPROVOKED {
        let operation = operations.iter().find(|operation| operation.id == *id).unwrap();
        assert!(operation.declared.iter().any(|declared| declared.name() == *name), "{id} {name}");
    }
}

fn is_unprovoked(id: &str, name: &str) -> bool {
    UNPROVOKED.iter().any(|(of, what, _)| *of == id && *what == name)
}
