//! Nodes that are drained, stopped and removed while clients write.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_testkit::{AMPLE, Actor, ServerProcess, create_user, succeed, wait_for, wait_until};
use reqwest::Method;
use serde_json::{Value, json};

use crate::faults::postgres::Postgres;
use crate::process::program;

/// `server.shutdown_grace`, in seconds.
const GRACE: u64 = 2;
/// Databases that are written to all the time. One more is idle.
const DATABASES: [&str; 3] = ["a", "b", "c"];

/// Two nodes over one Postgres and one store.
struct Pair {
    postgres: Postgres,
    dir: tempfile::TempDir,
    url: String,
}

impl Pair {
    fn new() -> Option<Self> {
        let postgres = Postgres::start()?;
        let url = postgres.fresh("pair");
        Some(Self { postgres, dir: tempfile::tempdir().unwrap(), url })
    }

    /// Returns a command on the folder of a node.
    fn command(&self, node: &str, args: &[&str]) -> Command {
        let mut command = program().on(&self.dir.path().join(node), args);
        command.env("BRANCHYARD_METADATA_URL", &self.url);
        command.env("BRANCHYARD_STORE_URL", format!("file://{}", self.dir.path().join("store").display()));
        command.env("BRANCHYARD_NODE_ID", node);
        command.env("BRANCHYARD_CLUSTER__LEASE", "5s");
        command.env("BRANCHYARD_SERVER__SHUTDOWN_GRACE", format!("{GRACE}s"));
        command
    }

    /// Starts a node. All nodes have the key of the first one.
    fn start(&self, node: &str) -> ServerProcess {
        let key = self.dir.path().join("first/server.key");
        if key.exists() && node != "first" {
            fs::create_dir_all(self.dir.path().join(node)).unwrap();
            fs::copy(key, self.dir.path().join(node).join("server.key")).unwrap();
        }
        ServerProcess::start(&mut self.command(node, &["serve", "--listen", "127.0.0.1:0"]))
    }

    fn administer(&self, args: &[&str]) -> String {
        succeed(&mut self.command("second", args))
    }

    fn refused(&self, args: &[&str]) -> String {
        let output = self.command("second", args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Returns what `node list` shows of a node.
    fn listed(&self, node: &str) -> Value {
        let lines = self.administer(&["node", "list", "--json"]);
        let nodes = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        nodes.into_iter().find(|listed| listed["id"] == node).unwrap_or_default()
    }

    fn led_by(&self, node: &str) -> String {
        self.postgres.ask("pair", &format!("SELECT count(*) FROM files WHERE owner_node = '{node}'"))
    }
}

/// Returns the status and the text of `/readyz`.
fn readiness(actor: &Actor) -> (u16, String) {
    let answer = actor.plain(Method::GET, "/readyz").send().unwrap();
    (answer.status().as_u16(), answer.text().unwrap())
}

/// Writes and waits for the end. Returns how long that took.
fn write(actor: &Actor, database: &str, number: usize) -> Duration {
    let began = Instant::now();
    let q = format!("insert into t values ({number})");
    let body = json!({"from_branch": "main", "to_branch": "main", "q": q});
    let path = format!("/databases/ada/{database}/sql-writes");
    let answer = actor.send(actor.request(Method::POST, &path).header("Prefer", "wait=20").json(&body));
    let operation = if answer.status == 202 { actor.finish(&answer) } else { answer.expect(200).data() };
    assert_eq!(operation["status"], "succeeded", "{operation}");
    began.elapsed()
}

fn count(actor: &Actor, database: &str) -> usize {
    let counted = actor.read(&format!("ada/{database}"), "main", "select count(*) from t");
    counted[0][0].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_drained_node_hands_over_while_clients_write() {
    let Some(pair) = Pair::new() else { return };
    let first = pair.start("first");
    let token = create_user(|args| pair.command("first", args), "ada");
    let on = |server: &ServerProcess| Actor::new(server.origin.clone(), Some(token.clone()), "ada");
    let ada = on(&first);
    for name in DATABASES.into_iter().chain(["idle"]) {
        ada.database(name);
        ada.write(&format!("ada/{name}"), "main", "create table t (n integer primary key)");
    }
    assert!(pair.refused(&["node", "drain", "first"]).contains("no node but 'first' is live"));
    let second = pair.start("second");
    let on_second = on(&second);
    assert!(pair.refused(&["node", "drain", "third"]).contains("there are: first, second"));
    assert_eq!((pair.listed("first")["state"].clone(), pair.led_by("first")), (json!("live"), "4".to_owned()));

    let (written, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let slowest = thread::scope(|scope| {
        let writers: Vec<_> = [&ada, &on_second, &ada, &on_second]
            .into_iter()
            .map(|actor| {
                let (written, stop) = (&written, &stop);
                scope.spawn(move || {
                    let mut slowest = Duration::ZERO;
                    while !stop.load(Ordering::Relaxed) {
                        let number = written.fetch_add(1, Ordering::Relaxed);
                        slowest = slowest.max(write(actor, DATABASES[number % DATABASES.len()], number));
                    }
                    slowest
                })
            })
            .collect();
        wait_until("writes", AMPLE, || written.load(Ordering::Relaxed) > 20);

        let drained = pair.administer(&["node", "drain", "first", "--json"]);
        assert_eq!(serde_json::from_str::<Value>(&drained).unwrap()["state"], "drained");
        let unready = wait_for("the end of readiness", AMPLE, || match readiness(&ada) {
            (503, text) => Ok(text),
            ready => Err(format!("{ready:?}")),
        });
        assert!(unready.contains("drained"), "{unready}");
        wait_until("the idle database", Duration::from_secs(1), || {
            let idle = "SELECT count(*) FROM files AS f JOIN databases AS d ON d.id = f.database_id \
                WHERE d.name = 'idle' AND f.owner_node IS NOT NULL";
            pair.postgres.ask("pair", idle) == "0"
        });
        wait_until("the other databases", Duration::from_secs(GRACE + 2), || pair.led_by("first") == "0");
        let at_drain = written.load(Ordering::Relaxed);
        wait_until("writes by the other node", AMPLE, || written.load(Ordering::Relaxed) > at_drain + 20);
        assert_eq!((pair.led_by("first"), count(&ada, "idle")), ("0".to_owned(), 0));
        assert_eq!(pair.listed("first")["databases"], 0);
        assert!(pair.refused(&["node", "remove", "first"]).contains("'first' is live: stop its server first"));
        assert!(pair.refused(&["node", "drain", "second"]).contains("no node but 'second' is live"));
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).max().unwrap()
    });
    println!("{} writes, the slowest one in {slowest:?}", written.load(Ordering::Relaxed));
    assert!(slowest < Duration::from_secs(GRACE + 2), "{slowest:?}");
    let total: usize = DATABASES.iter().map(|name| count(&ada, name)).sum();
    assert_eq!(total, written.load(Ordering::Relaxed), "and a read on the drained node sees all of them");
    // What cannot be queued is done on the drained node, also while that one releases its leases.
    for number in 0..20 {
        ada.database(&format!("new-{number}"));
    }
    write(&ada, "idle", 1);

    // A restart does not end the drain.
    first.terminate();
    assert_eq!(pair.listed("first")["state"], "ended");
    let first = pair.start("first");
    let ada = on(&first);
    assert_eq!(readiness(&ada).0, 503);
    write(&ada, "a", 1_000_000);
    assert_eq!(pair.led_by("first"), "0");
    pair.administer(&["node", "drain", "first", "--undo"]);
    wait_until("readiness", AMPLE, || readiness(&ada).0 == 200);
    assert_eq!(pair.listed("first")["state"], "live");

    pair.administer(&["node", "drain", "first"]);
    first.terminate();
    let text = pair.administer(&["node", "list"]);
    assert!(text.starts_with("first: ended since ") && text.contains("\nsecond: live since "), "{text}");
    assert_eq!(pair.administer(&["node", "remove", "first"]), "first: removed");
    assert!(pair.refused(&["node", "remove", "first"]).contains("there is no node 'first'; there are: second"));
    write(&on_second, "a", 1_000_001);
    second.terminate();
    assert_eq!(succeed(&mut pair.command("second", &["doctor"])), "everything is in order");
}

/// An operation that does not end in time is released and runs elsewhere; its late end counts for nothing.
#[test]
fn a_long_operation_of_a_drained_node_runs_elsewhere() {
    let Some(pair) = Pair::new() else { return };
    let first = pair.start("first");
    let token = create_user(|args| pair.command("first", args), "ada");
    let on = |server: &ServerProcess| Actor::new(server.origin.clone(), Some(token.clone()), "ada");
    let ada = on(&first);
    ada.database("d");
    ada.write("ada/d", "main", "create table t (n integer primary key)");
    let second = pair.start("second");
    // Computes for some seconds, which is longer than the grace, and shorter than the time limit.
    let q = "insert into t select max(n) from \
        (with recursive c (n) as (values (1) union all select n + 1 from c where n < 40000000) select n from c)";
    let body = json!({"from_branch": "main", "to_branch": "main", "q": q});
    let accepted = ada.post("/databases/ada/d/sql-writes", &body);
    wait_until("the operation to run", AMPLE, || {
        pair.postgres.ask("pair", "SELECT count(*) FROM operations WHERE state = 'running'") == "1"
    });
    pair.administer(&["node", "drain", "first"]);
    let drained = Instant::now();
    wait_until("the other node to lead", AMPLE, || pair.led_by("second") == "1");
    let handed_over = drained.elapsed();
    println!("handed over after {handed_over:?}");
    assert!(handed_over > Duration::from_secs(GRACE) - Duration::from_secs(1), "it had time to end");
    assert!(handed_over < Duration::from_secs(GRACE + 2), "{handed_over:?}");
    let operation = on(&second).finish(&accepted);
    assert_eq!(operation["status"], "succeeded", "{operation}");
    let attempts = pair.postgres.ask("pair", "SELECT max(attempts) FROM operations");
    assert_eq!(attempts, "2");
    for actor in [on(&second), ada] {
        assert_eq!(actor.read("ada/d", "main", "select n from t"), json!([["40000000"]]));
    }
    // The first attempt has ended meanwhile, or ends now.
    first.terminate();
    assert_eq!(count(&on(&second), "d"), 1);
    second.terminate();
    assert_eq!(succeed(&mut pair.command("second", &["doctor"])), "everything is in order");
}
