//! The requests of the clients, drawn from the seed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use branchyard_testkit::wait_for;
use md5::{Digest as _, Md5};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use super::client::{Ask, Body, Client, PATIENCE, Reply};
use super::expected_state::{Book, Effect, Event, Times, Token};
use super::pushes::push;

const THREADS: u64 = 3;
const D: &str = "/databases/ada/d";

/// Environment of the clients.
pub(super) struct TrafficHarness {
    pub(super) client: Client,
    pub(super) book: Arc<Mutex<Book>>,
    /// URL of the receiver for additional hooks.
    pub(super) receiver: String,
    pub(super) deployment: bool,
}

/// The clients of an episode. Each continues where it stopped after the previous fault.
pub(super) struct Clients(Vec<Worker>);

impl Clients {
    pub(super) fn new(seed: u64) -> Self {
        let worker = |thread| Worker {
            random: StdRng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(thread)),
            name: format!("{}", char::from(b'a' + u8::try_from(thread).unwrap_or_default())),
            count: 0,
            branches: Vec::new(),
            tokens: Vec::new(),
            forks: Vec::new(),
            hooks: Vec::new(),
            tags: Vec::new(),
        };
        Self((0..THREADS).map(worker).collect())
    }

    /// Runs the clients while `something` runs, and lets their current requests complete.
    pub(super) fn work_during(&mut self, harness: &TrafficHarness, something: impl FnOnce()) {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for worker in &mut self.0 {
                let stop = &stop;
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        worker.act(harness);
                    }
                });
            }
            // Stops the clients even if `something` panics.
            struct Stop<'a>(&'a AtomicBool);
            impl Drop for Stop<'_> {
                fn drop(&mut self) {
                    self.0.store(true, Ordering::Relaxed);
                }
            }
            let _stop = Stop(&stop);
            something();
        });
    }
}

struct Worker {
    random: StdRng,
    /// Prefix of the names of everything this worker creates, which makes the names unique.
    name: String,
    count: usize,
    branches: Vec<String>,
    tokens: Vec<String>,
    forks: Vec<String>,
    hooks: Vec<String>,
    tags: Vec<String>,
}

impl Worker {
    fn act(&mut self, harness: &TrafficHarness) {
        self.count += 1;
        let fresh = format!("{}{}", self.name, self.count);
        match self.random.random_range(0..100) {
            0..30 => self.write(harness, &fresh),
            30..36 => older_write(harness, &fresh),
            36..44 => import(harness, &fresh),
            44..52 => self.branch(harness, &fresh),
            52..57 => self.delete_branch(harness),
            57..62 => self.tag(harness, &fresh),
            62..66 => release(harness, &fresh),
            66..76 => pull(harness, &fresh, self.random.random_range(0..10)),
            76..80 => self.fork(harness, &fresh),
            80..83 => self.delete_fork(harness),
            83..87 => self.token(harness, &fresh),
            87..90 => self.delete_token(harness),
            90..93 => self.hook(harness, &fresh),
            93..95 => self.delete_hook(harness),
            95 => clone(harness),
            96..98 => push(harness, &fresh),
            _ if harness.deployment => insert(harness, &fresh),
            _ => read(harness),
        }
    }

    fn write(&mut self, harness: &TrafficHarness, mark: &str) {
        let q = format!("insert into marks values ('{mark}')");
        let body = json!({"from_branch": "main", "to_branch": "main", "q": q});
        let effect = Effect::Row { mark: mark.to_owned(), branch: "main".to_owned() };
        if self.random.random() {
            return wait_for_write(harness, mark, &body, effect);
        }
        let id = start(harness, &format!("{D}/sql-writes"), mark, &body, effect);
        // Cancels some operations, mostly too late.
        if self.random.random_ratio(1, 12) {
            let canceled =
                harness.client.post(&format!("/operations/{id}/cancel"), &format!("{mark}-cancel"), &json!({}));
            assert!([200, 409].contains(&canceled.status), "{}", canceled.body);
        }
    }

    fn branch(&mut self, harness: &TrafficHarness, name: &str) {
        branch(harness, name);
        self.branches.push(name.to_owned());
    }

    fn delete_branch(&mut self, harness: &TrafficHarness) {
        let Some(name) = self.branches.pop() else { return };
        deleted(&harness.client.delete(&format!("{D}/branches/{name}")));
        let mut book = harness.book.lock();
        book.branches.remove(&name);
        book.branch(&name, "Deleted branch");
    }

    fn tag(&mut self, harness: &TrafficHarness, name: &str) {
        if let Some(old) = self.tags.pop_if(|_| self.random.random_ratio(1, 3)) {
            deleted(&harness.client.delete(&format!("{D}/tags/{old}")));
            harness.book.lock().tags.remove(&old);
        }
        let made = harness.client.post(&format!("{D}/tags"), name, &json!({"name": name, "from": {"branch": "main"}}));
        assert_eq!(made.status, 201, "{}", made.body);
        harness.book.lock().tags.insert(name.to_owned(), made.text("commit_sha"));
        self.tags.push(name.to_owned());
    }

    fn fork(&mut self, harness: &TrafficHarness, owner: &str) {
        let owner = format!("org-{owner}");
        let made = harness.client.post("/organizations", &owner, &json!({"name": owner}));
        assert_eq!(made.status, 201, "{}", made.body);
        start(harness, &format!("{D}/forks"), &owner, &json!({"owner": owner}), Effect::Fork(owner.clone()));
        self.forks.push(owner);
    }

    /// Deletes a fork, unless it does not exist yet.
    fn delete_fork(&mut self, harness: &TrafficHarness) {
        let Some(owner) = self.forks.pop() else { return };
        let database = format!("{owner}/d");
        if harness.client.get(&format!("/databases/{database}")).status == 404 {
            return;
        }
        deleted(&harness.client.delete(&format!("/databases/{database}")));
        let mut book = harness.book.lock();
        // The fork's operation may not have been polled yet. The fork existed, so it succeeded.
        let fork = book.accepted.iter().position(|(_, effect)| matches!(effect, Effect::Fork(of) if *of == owner));
        if let Some(at) = fork {
            let (id, effect) = book.accepted.remove(at);
            book.settle(id, effect, true);
        }
        book.databases.remove(&database);
    }

    fn token(&mut self, harness: &TrafficHarness, name: &str) {
        let made = harness.client.post("/user/tokens", name, &json!({"name": name, "expires_in": "30d"}));
        assert_eq!(made.status, 201, "{}", made.body);
        // A replayed answer does not show the secret again.
        let secret = made.data()["token"].as_str().map(str::to_owned);
        assert!(secret.is_some() || made.repeated, "{}", made.body);
        let id = made.text("id");
        harness.book.lock().tokens.insert(id.clone(), Token { secret, live: true });
        self.tokens.push(id);
    }

    fn delete_token(&mut self, harness: &TrafficHarness) {
        let Some(id) = self.tokens.pop() else { return };
        deleted(&harness.client.delete(&format!("/user/tokens/{id}")));
        harness.book.lock().tokens.get_mut(&id).unwrap().live = false;
    }

    /// Registers an additional hook. The deliveries of these hooks are not checked, because the hooks are deleted again.
    fn hook(&mut self, harness: &TrafficHarness, name: &str) {
        if self.hooks.len() >= 3 {
            return;
        }
        let made =
            harness.client.post(&format!("{D}/hooks"), name, &json!({"url": harness.receiver, "events": ["on_push"]}));
        assert_eq!(made.status, 201, "{}", made.body);
        let id = made.text("id");
        harness.book.lock().hooks.insert(id.clone());
        self.hooks.push(id);
    }

    fn delete_hook(&mut self, harness: &TrafficHarness) {
        let Some(id) = self.hooks.pop() else { return };
        deleted(&harness.client.delete(&format!("{D}/hooks/{id}")));
        harness.book.lock().hooks.remove(&id);
    }
}

/// Asserts that a deletion took effect, either now or by an earlier attempt whose answer was lost.
fn deleted(reply: &Reply) {
    assert!(reply.status == 200 || (reply.repeated && reply.status == 404), "{}: {}", reply.status, reply.body);
}

/// Starts an operation, asserts that it was accepted, and returns its id.
fn start(harness: &TrafficHarness, path: &str, key: &str, body: &Value, effect: Effect) -> String {
    let accepted = harness.client.post(path, key, body);
    assert_eq!(accepted.status, 202, "{path}: {}", accepted.body);
    let id = accepted.text("id").rsplit('/').next().unwrap().to_owned();
    harness.book.lock().accept(id.clone(), effect);
    // Repeating the request must return the same operation.
    if key.ends_with('7') {
        let again = harness.client.post(path, key, body);
        assert_eq!((again.status, again.body), (202, accepted.body), "{path}: asked twice with one key");
    }
    id
}

/// Writes in a request that waits for the end, and so runs directly if it can.
fn wait_for_write(harness: &TrafficHarness, key: &str, body: &Value, effect: Effect) {
    let path = format!("{D}/sql-writes");
    let write = || {
        let reply = harness.client.post_waiting(&path, key, body);
        assert!([200, 202].contains(&reply.status), "{}", reply.body);
        reply.text("id").rsplit('/').next().unwrap().to_owned()
    };
    let id = write();
    harness.book.lock().accept(id.clone(), effect);
    if key.ends_with('7') {
        assert_eq!(write(), id, "asked twice with one key");
    }
}

/// Waits until an operation is settled and returns it.
pub(super) fn settled(client: &Client, id: &str) -> Value {
    wait_for(&format!("the end of operation {id}"), PATIENCE, || {
        let reply = client.get(&format!("/operations/{id}"));
        assert_eq!(reply.status, 200, "operation {id} was accepted, and is lost: {}", reply.body);
        let status = &reply.data()["status"];
        if status == "succeeded" || status == "failed" {
            // An internal error is a bug, even during a fault.
            assert_ne!(reply.data()["error"]["code"], "INTERNAL", "{}", reply.body);
            return Ok(reply.data().clone());
        }
        Err(reply.body)
    })
}

/// Writes through API v1alpha1, which has no idempotency keys. If the answer is lost, the row may or may not exist.
fn older_write(harness: &TrafficHarness, mark: &str) {
    let body = json!({"query": format!("insert into marks values ('{mark}')")});
    let ask = Ask {
        method: "POST",
        path: "/api/v1alpha1/ada/d/write/main/main",
        body: Some(Body::Json(&body)),
        key: None,
        token: Some(&harness.client.token),
        waits: false,
    };
    match harness.client.once(&ask) {
        Some((reply, _)) if reply.status == 200 => {
            let name = reply.body["operation_name"].as_str().unwrap_or_default();
            let id = name.rsplit('/').next().unwrap().to_owned();
            assert!(!id.is_empty(), "{}", reply.body);
            let effect = Effect::Row { mark: mark.to_owned(), branch: "main".to_owned() };
            harness.book.lock().accept(id, effect);
        }
        _ => drop(harness.book.lock().rows.insert(mark.to_owned(), Times::AtMostOnce)),
    }
}

fn branch(harness: &TrafficHarness, name: &str) {
    let made = harness.client.post(&format!("{D}/branches"), name, &json!({"name": name, "from": {"branch": "main"}}));
    assert_eq!(made.status, 201, "{}", made.body);
    let mut book = harness.book.lock();
    book.branches.insert(name.to_owned());
    book.branch(name, "Created branch");
}

fn release(harness: &TrafficHarness, tag: &str) {
    let head = harness.client.get(&format!("{D}/branches/main")).text("head_commit_sha");
    let body = json!({"tag": tag, "title": tag, "commit_sha": head, "create_tag_if_not_exists": true});
    let made = harness.client.post(&format!("{D}/releases"), tag, &body);
    assert_eq!(made.status, 201, "{}", made.body);
    let mut book = harness.book.lock();
    book.releases.insert(tag.to_owned(), head.clone());
    book.tags.insert(tag.to_owned(), head);
}

/// Imports a file in two parts, uploading one of them twice.
fn import(harness: &TrafficHarness, mark: &str) {
    let csv = format!("mark\n{mark}\n");
    let announced = json!({"content_length": csv.len(), "num_parts": 2, "file_type": "csv"});
    let session = harness.client.post(&format!("{D}/imports/uploads"), &format!("{mark}-upload"), &announced);
    assert_eq!(session.status, 201, "{}", session.body);
    let session = session.data().clone();
    let (mut completed, mut texts) = (Vec::new(), String::new());
    for (number, part) in csv.as_bytes().chunks(csv.len().div_ceil(2)).enumerate() {
        let url = session["parts"][number]["url"].as_str().unwrap();
        if number == 0 {
            harness.client.put(url, part);
        }
        let put = harness.client.put(url, part);
        assert_eq!(put.status, 200, "{}", put.body);
        completed.push(json!({"part_number": number + 1, "etag": put.etag}));
        texts += &STANDARD.encode(Md5::digest(part));
    }
    let table = format!("t_{mark}");
    let body = json!({
        "branch_name": "main", "table_name": table, "file_name": "t.csv", "file_size": csv.len(), "file_type": "csv",
        "import_operation": "create", "token": session["token"], "contents_key": session["contents_key"],
        "completed_parts": completed, "file_parts_md5": STANDARD.encode(Md5::digest(&texts)), "primary_keys": [],
    });
    start(harness, &format!("{D}/imports"), mark, &body, Effect::Table(table));
}

/// Creates a branch, writes to it, and opens a pull request. Mostly merges it; otherwise comments on it or closes it.
fn pull(harness: &TrafficHarness, mark: &str, fate: u32) {
    let client = &harness.client;
    let name = format!("p-{mark}");
    branch(harness, &name);
    let q = format!("insert into marks values ('{mark}')");
    let body = json!({"from_branch": name, "to_branch": name, "q": q});
    let effect = Effect::Row { mark: mark.to_owned(), branch: name.clone() };
    let id = start(harness, &format!("{D}/sql-writes"), mark, &body, effect);
    if settled(client, &id)["status"] != "succeeded" {
        return;
    }
    let place = |branch: &str| json!({"database": {"owner": "ada", "name": "d"}, "branch_name": branch});
    let body = json!({"title": mark, "from_branch": place(&name), "to_branch": place("main")});
    let opened = client.post(&format!("{D}/pulls"), &name, &body);
    assert_eq!(opened.status, 201, "{}", opened.body);
    let number = opened.data()["pull_number"].as_i64().unwrap();
    {
        let mut book = harness.book.lock();
        book.pulls.insert(number, ("open".to_owned(), 0));
        book.event(Event::Pull { number, action: "Opened".to_owned() });
    }
    let path = format!("{D}/pulls/{number}");
    match fate {
        0 => {
            let said = client.post(&format!("{path}/comments"), &format!("{mark}-c"), &json!({"body": mark}));
            assert_eq!(said.status, 201, "{}", said.body);
            harness.book.lock().pulls.get_mut(&number).unwrap().1 += 1;
        }
        1 => {
            let closed = client.patch(&path, &json!({"state": "closed"}));
            assert_eq!(closed.status, 200, "{}", closed.body);
            let mut book = harness.book.lock();
            book.pulls.get_mut(&number).unwrap().0 = "closed".to_owned();
            book.event(Event::Pull { number, action: "Closed".to_owned() });
        }
        _ => {
            let effect = Effect::Merge { pull: number, mark: mark.to_owned() };
            start(harness, &format!("{path}/merge"), &format!("{mark}-m"), &json!({}), effect);
        }
    }
}

/// Inserts a row into the deployment through the gateway, as libSQL clients do. The protocol has no idempotency keys.
fn insert(harness: &TrafficHarness, mark: &str) {
    let sql = format!("insert into t values ('{mark}')");
    let body = json!({"requests": [{"type": "execute", "stmt": {"sql": sql}}, {"type": "close"}]});
    let ask = Ask {
        method: "POST",
        path: "/api/v1/deployments/ada/gauges/sql/v2/pipeline",
        body: Some(Body::Json(&body)),
        key: None,
        token: Some(&harness.client.token),
        waits: false,
    };
    let done = harness
        .client
        .once(&ask)
        .is_some_and(|(reply, _)| reply.status == 200 && reply.body["results"][0]["type"] == "ok");
    let times = if done { Times::Exactly(1) } else { Times::AtMostOnce };
    harness.book.lock().deployed.insert(mark.to_owned(), times);
}

/// Returns the marks of succeeded writes.
fn known(harness: &TrafficHarness) -> Vec<String> {
    let book = harness.book.lock();
    let there = book.rows.iter().filter(|(_, times)| **times == Times::Exactly(1));
    there.map(|(mark, _)| mark.clone()).collect()
}

/// Clones the database with the client of the engine. If a fault or the deletion of a branch does not keep it from that, the clone
/// has all rows of succeeded writes.
fn clone(harness: &TrafficHarness) {
    let (known, folder) = (known(harness), tempfile::tempdir().unwrap());
    let clone = rusqlite::Connection::open(folder.path().join("clone.db")).unwrap();
    let url = format!("{}/ada/d", harness.client.origin.read());
    if let Err(error) = clone.query_row("select dolt_clone(?)", [url], |_| Ok(())) {
        return harness.client.weather.note(format!("clone: {error}"));
    }
    harness.client.weather.note("a whole clone".to_owned());
    let text = |sql: &str| -> BTreeSet<String> {
        clone.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    assert_eq!(text("pragma integrity_check"), BTreeSet::from(["ok".to_owned()]));
    let marks = text("select mark from marks");
    for mark in &known {
        assert!(marks.contains(mark), "{mark} is not in the clone");
    }
}

/// Checks that all rows of succeeded writes are visible.
fn read(harness: &TrafficHarness) {
    let known = known(harness);
    let rows = harness.client.rows("select mark from marks");
    let marks: BTreeSet<&String> = rows.iter().map(|row| &row[0]).collect();
    for mark in &known {
        assert!(marks.contains(mark), "{mark} is not there any more");
    }
}
