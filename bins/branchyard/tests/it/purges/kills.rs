//! Sends `kill -9` at random points of purges, beside writes and branches that come and go.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use branchyard_testkit::{AMPLE, Actor, wait_until};
use parking_lot::Mutex;
use reqwest::blocking::Client;
use serde_json::{Value, json};

use super::{files_with, heads, purge, tokens};
use crate::process::program;

/// Kills of one run of `cargo test`; `PURGE_KILLS` replaces it.
const KILLS: usize = 40;
/// Bytes of a row, so that the collection of a file takes its time.
const ROW_BYTES: usize = 40_000;

#[test]
fn a_kill_in_the_middle_of_a_purge_loses_nothing() {
    let kills = std::env::var("PURGE_KILLS").ok().map_or(KILLS, |text| text.parse().expect("a number"));
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let token = tokens(dir, &["ada"]).remove(0);
    let server = program().start(dir);
    let ada = Actor::new(server.origin.clone(), Some(token.clone()), "ada");
    ada.database("d");
    ada.write("ada/d", "main", "create table marks (mark text primary key, filler text)");
    server.terminate();

    let acknowledged = Mutex::new(Vec::<String>::new());
    let (serial, purged) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..kills {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let server = program().start(dir);
        let (stop, origin) = (AtomicBool::new(false), server.origin.clone());
        let load = Load { origin: &origin, token: &token, serial: &serial, stop: &stop };
        std::thread::scope(|scope| {
            scope.spawn(|| load.writes(&acknowledged));
            scope.spawn(|| load.branches());
            let count = || acknowledged.lock().len();
            let before = count();
            wait_until("a write", AMPLE, || count() > before);
            let accepted = scope.spawn(|| load.purges(&purged));
            wait_until("a purge to be accepted", AMPLE, || accepted.is_finished());
            std::thread::sleep(Duration::from_millis(seed % 400));
            server.kill();
            stop.store(true, Ordering::SeqCst);
        });
        let running = program().start(dir);
        let ada = Actor::new(running.origin.clone(), Some(token.clone()), "ada");
        let found = ada.read("ada/d", "main", "select count(*) from marks where filler is not null");
        let count: usize = found[0][0].as_str().unwrap().parse().unwrap();
        assert!(count >= acknowledged.lock().len(), "{count} of {}", acknowledged.lock().len());
        for head in heads(&ada, "ada/d") {
            ada.read("ada/d", &head, "select max(length(filler)) from marks");
        }
        running.kill();
    }

    let server = program().start(dir);
    let ada = Actor::new(server.origin.clone(), Some(token), "ada");
    // What was accepted before the last kill ends first.
    wait_until("the queue to be empty", AMPLE, || {
        let queued = ada.get("/databases/ada/d/operations?status=queued").expect(200).data();
        let running = ada.get("/databases/ada/d/operations?status=running").expect(200).data();
        queued == json!([]) && running == json!([])
    });
    let branches = ada.get("/databases/ada/d/branches?page_size=100").expect(200).data();
    for branch in branches.as_array().unwrap().iter().filter(|branch| branch["is_default"] == json!(false)) {
        ada.delete(&format!("/databases/ada/d/branches/{}", branch["name"].as_str().unwrap())).expect(200);
    }
    purge(&ada, "ada/d");
    let marks = ada.post("/databases/ada/d/sql", &json!({"q": "select mark from marks", "limit": 10_000})).expect(200);
    let marks: Vec<Value> = marks.data()["rows"].as_array().unwrap().iter().map(|row| row[0].clone()).collect();
    for mark in acknowledged.lock().iter() {
        assert!(marks.contains(&json!(mark)), "{mark} is lost");
    }
    assert_eq!(files_with(&dir.join("databases"), "PLANTED"), []);
    let (purged, written) = (purged.load(Ordering::SeqCst), acknowledged.lock().len());
    assert!(purged >= kills && written >= kills, "{purged} purges and {written} writes were acknowledged");
    server.terminate();
    assert_eq!(program().succeed(dir, &["doctor"]), "everything is in order");
    let left: Vec<_> = std::fs::read_dir(dir.join("databases/tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// What goes on until a server is killed.
struct Load<'a> {
    origin: &'a str,
    token: &'a str,
    serial: &'a AtomicUsize,
    stop: &'a AtomicBool,
}

impl Load<'_> {
    fn client(&self) -> Client {
        Client::builder().no_proxy().timeout(Duration::from_secs(60)).build().unwrap()
    }

    fn until_stopped(&self, mut action: impl FnMut(usize)) {
        while !self.stop.load(Ordering::SeqCst) {
            action(self.serial.fetch_add(1, Ordering::Relaxed));
        }
    }

    /// Writes, and returns whether it succeeded as far as the server could say.
    fn write(&self, client: &Client, branch: &str, q: &str) -> bool {
        let url = |path: &str| format!("{}/api/v2{path}", self.origin);
        let body = json!({"from_branch": "main", "to_branch": branch, "q": q});
        let sent = client.post(url("/databases/ada/d/sql-writes")).bearer_auth(self.token).json(&body).send();
        let Some(accepted) = sent.ok().and_then(|answer| answer.json::<Value>().ok()) else { return false };
        let Some(href) = accepted["data"]["href"].as_str() else { return false };
        while !self.stop.load(Ordering::SeqCst) {
            let seen = client.get(href).bearer_auth(self.token).send();
            let Some(seen) = seen.ok().and_then(|answer| answer.json::<Value>().ok()) else { return false };
            match seen["data"]["status"].as_str() {
                Some("succeeded") => return true,
                Some("failed") => return false,
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        false
    }

    fn writes(&self, acknowledged: &Mutex<Vec<String>>) {
        let client = self.client();
        self.until_stopped(|number| {
            let mark = format!("m{number}");
            let q = format!("insert into marks values ('{mark}', hex(randomblob({})))", ROW_BYTES / 2);
            if self.write(&client, "main", &q) {
                acknowledged.lock().push(mark);
            }
        });
    }

    /// Creates branches with planted rows, and deletes two of three.
    fn branches(&self) {
        let client = self.client();
        self.until_stopped(|number| {
            let name = format!("b{number}");
            let q = format!("insert into marks values ('PLANTED {number}', null)");
            if self.write(&client, &name, &q) && number % 3 > 0 {
                let url = format!("{}/api/v2/databases/ada/d/branches/{name}", self.origin);
                let _ = client.delete(url).bearer_auth(self.token).send();
            }
            std::thread::sleep(Duration::from_millis(20));
        });
    }

    /// Starts a purge.
    fn purges(&self, purged: &AtomicUsize) {
        let client = self.client();
        while !self.stop.load(Ordering::SeqCst) {
            let url = format!("{}/api/v2/databases/ada/d/purge", self.origin);
            let answer = client.post(url).bearer_auth(self.token).json(&json!({})).send();
            if answer.is_ok_and(|answer| answer.status().as_u16() == 202) {
                purged.fetch_add(1, Ordering::SeqCst);
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
