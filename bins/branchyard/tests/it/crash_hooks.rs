//! Sends `kill -9` at random points while a webhook receives many pushes. Afterwards every commit was delivered at least once,
//! repeats have the same id and body, different events have different ids, no push names a nonexistent commit, and first attempts
//! came in order.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use branchyard_testkit::{AMPLE, Receiver, ServerProcess, wait_until};
use reqwest::blocking::Client;
use serde_json::{Value, json};

use crate::process::program;

const WRITES: usize = 1_000;
const KILLS: usize = 20;
const WRITERS: usize = 4;

#[test]
fn every_commit_is_told_whenever_the_server_dies() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let token = program().user(dir, "ada");
    let receiver = Receiver::start();
    let start =
        || ServerProcess::start(program().serve(dir).env("BRANCHYARD_HOOKS__ALLOWED_CIDRS", "127.0.0.0/8,::1/128"));
    let server = start();
    let caller = Caller::new(&server.origin, &token);
    caller.post("/databases", &json!({"owner": "ada", "name": "d", "visibility": "public"})).unwrap();
    assert!(caller.write("create table t (n)"));
    let hook = caller.post("/databases/ada/d/hooks", &json!({"url": receiver.url()})).unwrap();
    assert_eq!(hook["data"]["events"], json!(["on_push"]), "{hook}");
    server.terminate();

    let (begun, acknowledged) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut kills = 0;
    while acknowledged.load(Ordering::SeqCst) < WRITES || kills < KILLS {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let server = start();
        // The server is killed after this many further writes.
        let until = acknowledged.load(Ordering::SeqCst) + usize::try_from(5 + seed % 90).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..WRITERS {
                let caller = Caller::new(&server.origin, &token);
                let (begun, acknowledged, stop) = (&begun, &acknowledged, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::SeqCst) {
                        let n = begun.fetch_add(1, Ordering::SeqCst);
                        if caller.write(&format!("insert into t values ({n})")) {
                            acknowledged.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                });
            }
            wait_until("an acknowledgment", AMPLE, || acknowledged.load(Ordering::SeqCst) >= until);
            server.kill();
            stop.store(true, Ordering::SeqCst);
        });
        kills += 1;
    }

    let server = start();
    let caller = Caller::new(&server.origin, &token);
    // Waits for operations that were acknowledged and not settled.
    for status in ["queued", "running"] {
        let path = format!("/databases/ada/d/operations?status={status}");
        wait_until("the end of the operations", AMPLE, || caller.get(&path)["data"] == json!([]));
    }
    let commits = caller.chain();
    assert!(commits.len() > WRITES, "{} commits", commits.len());
    let told = deliveries(&receiver, &caller, &commits);
    let repeats: usize = told.values().map(|times| times - 1).sum();
    assert!(repeats < commits.len(), "{kills} kills: {repeats} repeats of {} commits", commits.len());
    server.terminate();
}

/// Waits until no delivery is pending, then checks all received requests. Returns how often each event was received.
fn deliveries(receiver: &Receiver, caller: &Caller, commits: &[(String, String)]) -> BTreeMap<String, usize> {
    let hook = caller.get("/databases/ada/d/hooks")["data"][0]["id"].as_str().unwrap().to_owned();
    let pending = format!("/databases/ada/d/hooks/{hook}/deliveries?status=pending");
    // The delivery of the last write may not exist yet when no delivery is pending, so the received requests are counted too. The
    // hook was registered after the first two commits.
    wait_until("all deliveries", AMPLE, || {
        caller.get(&pending)["data"] == json!([]) && receiver.received().len() >= commits.len() - 2
    });
    let received = receiver.received();
    let mut times = BTreeMap::<String, usize>::new();
    let (mut bodies, mut ids) = (HashMap::<String, String>::new(), HashMap::<String, String>::new());
    let mut firsts: Vec<String> = Vec::new();
    for request in &received {
        let id = request.header("webhook-id").to_owned();
        if *times.entry(id.clone()).and_modify(|times| *times += 1).or_insert(1) == 1 {
            firsts.push(id.clone());
        }
        let body = bodies.entry(id.clone()).or_insert_with(|| request.body.clone());
        assert_eq!(*body, request.body, "a repeat is the same, byte by byte");
        let other = ids.entry(request.body.clone()).or_insert_with(|| id.clone());
        assert_eq!(*other, id, "one event, one id");
    }
    assert!(firsts.is_sorted(), "first attempts are in the order of the events");
    let pushes: HashMap<String, String> = ids
        .keys()
        .map(|body| serde_json::from_str::<Value>(body).unwrap())
        .map(|push| (push["head"].as_str().unwrap().to_owned(), push["prev"].as_str().unwrap().to_owned()))
        .collect();
    let known: HashMap<&String, &String> = commits.iter().map(|(commit, parent)| (commit, parent)).collect();
    // The hook was registered after the first two commits: the initial one and the table.
    for (commit, parent) in &commits[..commits.len() - 2] {
        assert_eq!(pushes.get(commit), Some(parent), "a commit was not told, or with another one before it");
    }
    for head in pushes.keys() {
        assert!(known.contains_key(head), "a push names {head}, which is no commit");
    }
    times
}

struct Caller {
    origin: String,
    token: String,
    client: Client,
}

impl Caller {
    fn new(origin: &str, token: &str) -> Self {
        let client = Client::builder().no_proxy().timeout(Duration::from_secs(300)).build().unwrap();
        Self { origin: origin.to_owned(), token: token.to_owned(), client }
    }

    fn post(&self, path: &str, body: &Value) -> Option<Value> {
        let url = format!("{}/api/v2{path}", self.origin);
        let answer = self.client.post(url).bearer_auth(&self.token).json(body).send().ok()?;
        answer.status().is_success().then(|| answer.json().ok()).flatten()
    }

    fn get(&self, path: &str) -> Value {
        let url = if path.starts_with("http") { path.to_owned() } else { format!("{}/api/v2{path}", self.origin) };
        self.client.get(url).bearer_auth(&self.token).send().unwrap().json().unwrap()
    }

    /// Writes and waits until the operation has ended, unless the server dies. Returns `true` if the write was acknowledged.
    fn write(&self, statements: &str) -> bool {
        let body = json!({"from_branch": "main", "to_branch": "main", "q": statements});
        let Some(accepted) = self.post("/databases/ada/d/sql-writes", &body) else { return false };
        let id = accepted["data"]["id"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let url = format!("{}/api/v2/operations/{id}", self.origin);
        loop {
            let polled =
                self.client.get(&url).bearer_auth(&self.token).send().and_then(|answer| answer.json::<Value>());
            match polled {
                Ok(operation) if operation["data"]["status"] == "succeeded" => return true,
                Ok(_) => std::thread::sleep(Duration::from_millis(1)),
                Err(_) => return true,
            }
        }
    }

    /// Returns every commit of the branch with its parent, newest first.
    fn chain(&self) -> Vec<(String, String)> {
        let mut commits = Vec::new();
        let mut token = String::new();
        loop {
            let page = self.get(&format!("/databases/ada/d/commits?page_size=100&page_token={token}"));
            for commit in page["data"].as_array().unwrap() {
                let parent = commit["parents"][0].as_str().unwrap_or_default().to_owned();
                commits.push((commit["sha"].as_str().unwrap().to_owned(), parent));
            }
            match page["meta"]["next_page_token"].as_str() {
                Some(next) => next.clone_into(&mut token),
                None => return commits,
            }
        }
    }
}
