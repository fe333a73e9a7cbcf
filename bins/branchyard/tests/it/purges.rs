//! Purges through the real binary: what was deleted is in no file and no answer afterwards, and nothing else is lost, also
//! when the server is killed, the disk is full, or everything else goes on beside them.

mod disk_full;
mod kills;
mod planted;
mod together;

use std::fs;
use std::path::{Path, PathBuf};

use branchyard_testkit::Actor;
use serde_json::{Value, json};

use crate::process::program;

/// Returns the files below `folder` that contain `text`, with its surroundings.
fn files_with(folder: &Path, text: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            if let Some(at) = bytes.windows(text.len()).position(|part| part == text.as_bytes()) {
                let part = &bytes[at.saturating_sub(60)..(at + 60).min(bytes.len())];
                found.push((path, String::from_utf8_lossy(part).into_owned()));
            }
        }
    }
    found
}

/// Creates users in a data folder, with a token each, and returns the tokens.
fn tokens(dir: &Path, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| program().user(dir, name)).collect()
}

/// Purges a database, expects it to succeed, and returns the result.
fn purge(actor: &Actor, database: &str) -> Value {
    let operation = actor.finish(&actor.post(&format!("/databases/{database}/purge"), &json!({})));
    assert_eq!((&operation["type"], &operation["status"]), (&json!("purge"), &json!("succeeded")), "{operation}");
    operation["result"].clone()
}

/// Returns the commits that all branches and tags of a database name.
fn heads(actor: &Actor, database: &str) -> Vec<String> {
    let mut heads = Vec::new();
    for (kind, field) in [("branches", "head_commit_sha"), ("tags", "commit_sha")] {
        let mut more = String::new();
        loop {
            let answer = actor.get(&format!("/databases/{database}/{kind}?page_size=100{more}")).expect(200).json();
            heads.extend(
                answer["data"].as_array().unwrap().iter().map(|found| found[field].as_str().unwrap().to_owned()),
            );
            match answer["meta"]["next_page_token"].as_str() {
                Some(token) => more = format!("&page_token={token}"),
                None => break,
            }
        }
    }
    heads
}
