//! Sends `kill -9` at random points during writes, merges, forks, and imports. Afterwards no acknowledged operation is lost, none
//! was applied twice, and `doctor` has no findings.
//!
//! Every operation leaves a mark that shows how often it was applied. A write inserts its own row into a table without a key,
//! whether its request waits for the end or not; a merge brings such a row; an import creates a table of one row; a fork creates a database.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use parking_lot::Mutex;
use reqwest::blocking::Client;
use serde_json::{Value, json};

use branchyard_testkit::{AMPLE, wait_for, wait_until};

use crate::process::program;

/// Minimum number of kills. More follow until enough operations were acknowledged.
const KILLS: usize = 50;
const MOST_KILLS: usize = 500;
/// Minimum number of acknowledged operations in total.
const ACKNOWLEDGED: usize = 100;
/// Minimum number of acknowledged operations of each kind.
const OF_EACH_KIND: usize = 3;
const KINDS: [&str; 5] = ["write", "waited", "import", "merge", "fork"];
/// The database of writes whose requests wait for their end. Nothing else runs on it, so they run directly.
const DIRECT: &str = "direct";
/// Number of organizations, each of which can own one fork.
const ORGANIZATIONS: usize = 8;

#[test]
fn nothing_acknowledged_is_lost_and_nothing_happens_twice() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    program().succeed(dir, &["user", "create", "ada", "--email", "ada@example.test"]);
    for n in 0..ORGANIZATIONS {
        program().succeed(dir, &["org", "create", &format!("org-{n}"), "--owner", "ada"]);
    }
    let token = program().succeed(dir, &["token", "create", "--user", "ada", "--name", "t", "--expires", "30d"]);
    prepare(dir, &token);
    let acknowledged = Mutex::new(Vec::new());
    let serial = AtomicUsize::new(0);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut kills = 0;
    while kills < KILLS || !is_enough(&acknowledged.lock()) {
        assert!(kills < MOST_KILLS, "{} operations were acknowledged", acknowledged.lock().len());
        kills += 1;
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let server = program().start(dir);
        let origin = server.origin.clone();
        // The server is killed after this many acknowledgments and a short random delay.
        let count = || acknowledged.lock().len();
        let until = count() + usize::try_from(seed % 12).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| load(&Caller::new(&origin, &token), &serial, &acknowledged, &stop));
            }
            wait_until("an acknowledgment", AMPLE, || count() >= until);
            std::thread::sleep(Duration::from_millis(seed % 60));
            server.kill();
            stop.store(true, Ordering::SeqCst);
        });
    }
    let server = program().start(dir);
    let caller = Caller::new(&server.origin, &token);
    let acknowledged = acknowledged.into_inner();
    let operations: Vec<Value> = acknowledged.iter().map(|(_, _, id)| caller.settled(id)).collect();
    let mut counted = marks(&caller, "d");
    counted.extend(marks(&caller, DIRECT));
    let mut succeeded = BTreeMap::<&str, usize>::new();
    for ((kind, mark, _), operation) in acknowledged.iter().zip(&operations) {
        let times = match *kind {
            "fork" => usize::from(caller.get(&format!("/databases/{mark}/d")).0 == 200),
            "import" => caller.rows(&format!("select mark from t_{mark}")),
            _ => counted.get(mark).copied().unwrap_or(0),
        };
        let expected = usize::from(operation["status"] == "succeeded");
        assert_eq!(times, expected, "{kind} {mark}: {operation}");
        *succeeded.entry(kind).or_default() += expected;
    }
    for kind in KINDS {
        assert!(succeeded.get(kind).is_some_and(|count| *count > 0), "no {kind} succeeded: {succeeded:?}");
    }
    assert!(counted.values().all(|times| *times == 1), "something was applied twice");
    server.terminate();
    assert_eq!(program().succeed(dir, &["doctor"]), "everything is in order");
}

fn is_enough(acknowledged: &[(&'static str, String, String)]) -> bool {
    let of = |kind: &str| acknowledged.iter().filter(|(other, ..)| *other == kind).count();
    acknowledged.len() >= ACKNOWLEDGED && KINDS.iter().all(|kind| of(kind) >= OF_EACH_KIND)
}

fn prepare(dir: &Path, token: &str) {
    let server = program().start(dir);
    let caller = Caller::new(&server.origin, token);
    for name in ["d", DIRECT] {
        let wanted = json!({"owner": "ada", "name": name, "visibility": "public"});
        assert_eq!(caller.post("/databases", &wanted).unwrap().0, 201);
        let tables = write("main", "create table marks (mark text); create table seed (x)");
        let id = caller.accepted(&format!("/databases/ada/{name}/sql-writes"), &tables).unwrap();
        assert_eq!(caller.settled(&id)["status"], "succeeded");
    }
    server.terminate();
}

fn write(branch: &str, statements: &str) -> Value {
    json!({"from_branch": branch, "to_branch": branch, "q": statements})
}

/// Returns each mark with its number of occurrences.
fn marks(caller: &Caller, database: &str) -> BTreeMap<String, usize> {
    let q = json!({"q": "select mark, count(*) from marks group by mark", "limit": 10_000});
    let (_, read) = caller.post(&format!("/databases/ada/{database}/sql"), &q).unwrap();
    assert_eq!(read["data"]["status"], "success", "{read}");
    let rows = read["data"]["rows"].as_array().unwrap();
    assert!(rows.len() < 10_000, "as many marks as a read can show");
    rows.iter().map(|row| (row[0].as_str().unwrap().to_owned(), row[1].as_str().unwrap().parse().unwrap())).collect()
}

type Acknowledged = Mutex<Vec<(&'static str, String, String)>>;

/// Sends one request after another until the server is gone.
fn load(caller: &Caller, serial: &AtomicUsize, acknowledged: &Acknowledged, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        let number = serial.fetch_add(1, Ordering::Relaxed);
        let mark = format!("m{number}");
        let asked = match number % 8 {
            0 => ("import", caller.import(&mark)),
            1 | 2 => ("merge", caller.merge(&mark)),
            3 => {
                // A fork request without an answer is repeated, because each kill may come before the answer.
                let owner = format!("org-{}", number / 8 % ORGANIZATIONS);
                let is_forked = |(kind, mark, _): &(&str, String, String)| *kind == "fork" && *mark == owner;
                if acknowledged.lock().iter().any(is_forked) {
                    continue;
                }
                let accepted = caller.accepted("/databases/ada/d/forks", &json!({"owner": owner}));
                if let Some(id) = accepted {
                    acknowledged.lock().push(("fork", owner, id));
                }
                continue;
            }
            4 | 5 => ("waited", caller.waited(&mark)),
            _ => {
                let q = format!("insert into marks values ('{mark}')");
                ("write", caller.accepted("/databases/ada/d/sql-writes", &write("main", &q)))
            }
        };
        match asked {
            (kind, Some(id)) => acknowledged.lock().push((kind, mark, id)),
            (_, None) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Returns `true` if the operation of an answer has ended.
fn is_settled(answer: &Value) -> bool {
    answer["data"]["status"] == "succeeded" || answer["data"]["status"] == "failed"
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

    fn post(&self, path: &str, body: &Value) -> Option<(u16, Value)> {
        self.post_preferring("respond-async", path, body)
    }

    fn post_preferring(&self, preference: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let url = format!("{}/api/v2{path}", self.origin);
        let request = self.client.post(url).bearer_auth(&self.token).header("Prefer", preference).json(body);
        let answer = request.send().ok()?;
        let status = answer.status().as_u16();
        Some((status, answer.json().ok()?))
    }

    fn get(&self, path: &str) -> (u16, Value) {
        let answer = self.client.get(format!("{}/api/v2{path}", self.origin)).bearer_auth(&self.token).send().unwrap();
        (answer.status().as_u16(), answer.json().unwrap())
    }

    /// Posts a request and returns the id of the operation if the server acknowledged it.
    fn accepted(&self, path: &str, body: &Value) -> Option<String> {
        let (status, answer) = self.post(path, body)?;
        let id = answer["data"]["id"].as_str()?.rsplit('/').next()?.to_owned();
        (status == 202).then_some(id)
    }

    /// Writes a mark in a request that waits for the end. Returns the id of the operation if it is acknowledged.
    fn waited(&self, mark: &str) -> Option<String> {
        let body = write("main", &format!("insert into marks values ('{mark}')"));
        let path = format!("/databases/ada/{DIRECT}/sql-writes");
        let (status, answer) = self.post_preferring("wait=20", &path, &body)?;
        let id = answer["data"]["id"].as_str()?.rsplit('/').next()?.to_owned();
        (status == 200 || status == 202).then_some(id)
    }

    fn settled(&self, id: &str) -> Value {
        wait_for("the end of the operation", AMPLE, || {
            let (status, answer) = self.get(&format!("/operations/{id}"));
            assert_eq!(status, 200, "acknowledged, but lost: {answer}");
            if is_settled(&answer) { Ok(answer["data"].clone()) } else { Err(answer) }
        })
    }

    /// Returns the number of rows of a read, or 0 if the table does not exist.
    fn rows(&self, q: &str) -> usize {
        let (_, read) = self.post("/databases/ada/d/sql", &json!({"q": q})).unwrap();
        read["data"]["rows"].as_array().unwrap().len()
    }

    fn merge(&self, mark: &str) -> Option<String> {
        let branch = json!({"name": mark, "from": {"branch": "main"}});
        self.post("/databases/ada/d/branches", &branch)?;
        let q = format!("insert into marks values ('{mark}')");
        let written = self.accepted("/databases/ada/d/sql-writes", &write(mark, &q))?;
        let operation = format!("{}/api/v2/operations/{written}", self.origin);
        // Ends if the server is gone, too.
        wait_for("the end of the write", AMPLE, || {
            let answer = self.client.get(&operation).bearer_auth(&self.token).send().ok();
            match answer.and_then(|answer| answer.json::<Value>().ok()) {
                Some(answer) if !is_settled(&answer) => Err(answer),
                settled => Ok(settled),
            }
        })?;
        let place = |branch: &str| json!({"database": {"owner": "ada", "name": "d"}, "branch_name": branch});
        let body = json!({"title": mark, "from_branch": place(mark), "to_branch": place("main")});
        let (_, pull) = self.post("/databases/ada/d/pulls", &body)?;
        let number = pull["data"]["pull_number"].as_i64()?;
        self.accepted(&format!("/databases/ada/d/pulls/{number}/merge"), &json!({}))
    }

    fn import(&self, mark: &str) -> Option<String> {
        let csv = format!("mark\n{mark}\n");
        let announced = json!({"content_length": csv.len(), "num_parts": 1, "file_type": "csv"});
        let (_, session) = self.post("/databases/ada/d/imports/uploads", &announced)?;
        let url = session["data"]["parts"][0]["url"].as_str()?.to_owned();
        let put = self.client.put(url).body(csv.clone()).send().ok()?;
        let etag = put.headers().get("etag")?.to_str().ok()?.to_owned();
        let checksum = STANDARD.encode(Md5::digest(STANDARD.encode(Md5::digest(&csv))));
        let body = json!({
            "branch_name": "main", "table_name": format!("t_{mark}"), "file_name": "t.csv", "file_size": csv.len(),
            "file_type": "csv", "import_operation": "create", "token": session["data"]["token"],
            "contents_key": session["data"]["contents_key"], "completed_parts": [{"part_number": 1, "etag": etag}],
            "file_parts_md5": checksum, "primary_keys": [],
        });
        self.accepted("/databases/ada/d/imports", &body)
    }
}
