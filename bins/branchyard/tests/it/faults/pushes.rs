//! Pushes by the protocol of clients: a branch with a commit of its own, repeated until the branch is there.

use std::time::Duration;

use branchyard_remote_protocol::{
    BranchEntry, Hash, RefUpdate, Refs, Scope, encode_hashes, encode_record, found_chunks, hash_of, layout,
};
use branchyard_testkit::wait_for;
use reqwest::Method;
use reqwest::blocking::Client as Http;

use super::client::PATIENCE;
use super::traffic::TrafficHarness;

/// Sends a request. Returns `None` if its answer was lost, or if it is to be repeated.
fn send(harness: &TrafficHarness, http: &Http, method: Method, endpoint: &str, body: Vec<u8>) -> Option<Vec<u8>> {
    let url = format!("{}/ada/d/{endpoint}", harness.client.origin.read());
    let request = http.request(method, url).bearer_auth(&harness.client.token);
    let response = request.header("content-type", "application/octet-stream").body(body).send().ok()?;
    let status = response.status().as_u16();
    let bytes = response.bytes().ok()?.to_vec();
    match status {
        200 | 204 => Some(bytes),
        // The refs have changed, the chunks went with a restart, or a fault goes on.
        409 | 429 | 500..=599 => {
            harness.client.weather.note(format!("{endpoint}: {status}"));
            None
        }
        _ => panic!("{endpoint}: {status} {}", String::from_utf8_lossy(&bytes)),
    }
}

/// Returns a commit on top of `main` that changes nothing.
fn new_commit(harness: &TrafficHarness, http: &Http, message: &str) -> Option<Vec<u8>> {
    let refs = Refs::parse(&send(harness, http, Method::GET, "refs", Vec::new())?).unwrap();
    let parent = refs.branch("main").unwrap().head;
    let found = send(harness, http, Method::POST, "get-chunks", encode_hashes(&[parent]))?;
    let catalog = layout::commit(found_chunks(&found, 1).unwrap()[0].unwrap()).unwrap().catalog;
    let mut bytes = vec![2, 1];
    bytes.extend(parent);
    bytes.extend(catalog);
    bytes.extend(1_767_323_045_i64.to_le_bytes());
    for text in ["Ada", "ada@example.test", message] {
        bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    Some(bytes)
}

/// Makes one attempt. Returns `None` if it has to be repeated.
fn attempt(harness: &TrafficHarness, http: &Http, name: &str, commit: &[u8], tip: Hash) -> Option<()> {
    let seen = send(harness, http, Method::GET, "refs", Vec::new())?;
    if let Some(branch) = Refs::parse(&seen).unwrap().branch(name) {
        assert_eq!(branch.head, tip, "{name} is elsewhere");
        return Some(());
    }
    let mut body = Vec::new();
    encode_record(&mut body, commit);
    send(harness, http, Method::POST, "chunks", body)?;
    let refs = Refs {
        default_branch: name.to_owned(),
        branches: vec![BranchEntry { name: name.to_owned(), head: tip }],
        tags: Vec::new(),
    };
    let update = RefUpdate { scope: Scope::Branch(name), is_forced: false, expected: hash_of(&seen), refs };
    send(harness, http, Method::PUT, "refs-if", update.encode()).map(drop)
}

/// Pushes a new branch.
pub(super) fn push(harness: &TrafficHarness, mark: &str) {
    let http = Http::builder().no_proxy().timeout(Duration::from_secs(60)).pool_max_idle_per_host(0).build().unwrap();
    let commit = wait_for("a commit to push on", PATIENCE, || new_commit(harness, &http, mark).ok_or("to be repeated"));
    let (name, tip) = (format!("u-{mark}"), hash_of(&commit));
    wait_for("the end of a push", PATIENCE, || attempt(harness, &http, &name, &commit, tip).ok_or("to be repeated"));
    harness.client.weather.note("a push".to_owned());
    let mut book = harness.book.lock();
    book.branches.insert(name.clone());
    book.branch(&name, "Created branch");
    *book.pushes.entry(name).or_default() += 1;
}
