//! Several nodes over one Postgres and one store while nodes are killed, frozen, and cut off, with an oracle outside: each write adds
//! its number to a table, and each read of a table is compared with what was acknowledged, and read, before it began.
//!
//! `cargo test` runs a few faults with a fixed seed; `cargo xtask crash --nodes 3 --seed N --minutes M` runs for longer
//! (docs/testing.md).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_testkit::{Actor, ServerProcess, TcpProxy, create_user, succeed};
use parking_lot::{Mutex, RwLock};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::faults::postgres::Postgres;
use crate::process::program;

/// Databases, each with one table.
const DATABASES: [&str; 3] = ["a", "b", "c"];
/// Threads that write and read.
const CLIENTS: usize = 6;
/// The lease of a node, in seconds.
const LEASE: u64 = 2;
/// How long a node is started again and again.
const START: Duration = Duration::from_secs(30);
/// Faults of a short run.
const SHORT: usize = 6;

#[derive(Debug, Clone, Copy)]
enum Fault {
    /// SIGKILL, and a start on the same folder.
    Kill,
    /// SIGKILL, and a start on an empty folder.
    Lose,
    /// SIGSTOP for longer or shorter than the lease.
    Freeze(Duration),
    /// No connections to Postgres for a while.
    CutOff(Duration),
    /// SIGTERM, and a start.
    Restart,
}

impl Fault {
    fn any(random: &mut StdRng) -> Self {
        let while_ = Duration::from_millis(random.random_range(300..=2_500 * LEASE));
        match random.random_range(0..5) {
            0 => Self::Kill,
            1 => Self::Lose,
            2 => Self::Freeze(while_),
            3 => Self::CutOff(while_),
            _ => Self::Restart,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Lose => "kill and lose the folder",
            Self::Freeze(_) => "freeze",
            Self::CutOff(_) => "cut off from Postgres",
            Self::Restart => "restart",
        }
    }
}

struct Node {
    id: String,
    /// Its way to Postgres.
    way: TcpProxy,
    process: Mutex<Option<ServerProcess>>,
    origin: RwLock<String>,
}

struct Cluster {
    folder: PathBuf,
    path_in_url: String,
    nodes: Vec<Node>,
}

impl Cluster {
    fn new(folder: PathBuf, postgres: &Postgres, count: usize) -> Self {
        let url = postgres.fresh("nodes");
        let (credentials, rest) = url.rsplit_once('@').unwrap();
        let (target, name) = rest.split_once('/').unwrap();
        let node = |number| Node {
            id: format!("node-{number}"),
            way: TcpProxy::start(target.to_owned()),
            process: Mutex::new(None),
            origin: RwLock::default(),
        };
        let nodes = (0..count).map(node).collect();
        let path_in_url = format!("{credentials}@|/{name}");
        let cluster = Self { folder, path_in_url, nodes };
        cluster.start(0);
        fs::copy(cluster.data(0).join("server.key"), cluster.folder.join("server.key")).unwrap();
        (1..count).for_each(|at| cluster.start(at));
        cluster
    }

    fn data(&self, at: usize) -> PathBuf {
        self.folder.join(&self.nodes[at].id)
    }

    fn command(&self, at: usize, args: &[&str]) -> Command {
        let node = &self.nodes[at];
        let mut command = program().on(&self.data(at), args);
        command.env("BRANCHYARD_METADATA_URL", self.path_in_url.replace('|', &node.way.address.to_string()));
        command.env("BRANCHYARD_STORE_URL", format!("file://{}", self.folder.join("store").display()));
        command.env("BRANCHYARD_NODE_ID", &node.id);
        command.env("BRANCHYARD_CLUSTER__LEASE", format!("{LEASE}s"));
        command.env("BRANCHYARD_METADATA__WAIT_MS", "1000");
        command.env("BRANCHYARD_SQL__ISOLATION", "thread");
        command
    }

    fn start(&self, at: usize) {
        let data = self.data(at);
        fs::create_dir_all(&data).unwrap();
        let key = self.folder.join("server.key");
        if key.exists() && !data.join("server.key").exists() {
            fs::copy(key, data.join("server.key")).unwrap();
        }
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.join(format!("{}.log", self.nodes[at].id)))
            .unwrap();
        let until = Instant::now() + START;
        // As a service manager, because a node whose Postgres does not answer in time does not start.
        let process = loop {
            let mut command = self.command(at, &["serve", "--listen", "127.0.0.1:0"]);
            match ServerProcess::try_start(command.stderr(log.try_clone().unwrap())) {
                Ok(process) => break process,
                Err(error) => assert!(Instant::now() < until, "{} does not start: {error}", self.nodes[at].id),
            }
        };
        self.nodes[at].origin.write().clone_from(&process.origin);
        *self.nodes[at].process.lock() = Some(process);
    }

    fn signal(&self, at: usize, signal: rustix::process::Signal) {
        let process = self.nodes[at].process.lock();
        let id = i32::try_from(process.as_ref().unwrap().id()).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    fn strike(&self, at: usize, fault: Fault) {
        let take = || self.nodes[at].process.lock().take().unwrap();
        match fault {
            Fault::Kill => take().kill(),
            Fault::Lose => {
                take().kill();
                fs::remove_dir_all(self.data(at)).unwrap();
            }
            Fault::Freeze(pause) => {
                self.signal(at, rustix::process::Signal::STOP);
                thread::sleep(pause);
                self.signal(at, rustix::process::Signal::CONT);
                return;
            }
            Fault::CutOff(pause) => {
                self.nodes[at].way.cut();
                thread::sleep(pause);
                self.nodes[at].way.mend();
                return;
            }
            Fault::Restart => take().terminate(),
        }
        self.start(at);
    }
}

/// What is known of a table from outside.
#[derive(Default)]
struct Table {
    /// Numbers that are there: their write was acknowledged, or a read has shown them.
    certain: BTreeSet<u64>,
    /// Numbers whose write had no answer.
    open: BTreeSet<u64>,
}

#[derive(Default)]
struct Oracle {
    tables: [Mutex<Table>; DATABASES.len()],
    acknowledged: AtomicUsize,
    unknown: AtomicUsize,
    reads: AtomicUsize,
    /// Answers by status and problem code.
    answers: Mutex<BTreeMap<String, usize>>,
    findings: Mutex<Vec<String>>,
}

/// A client, whose requests go to a node each.
struct Client<'a> {
    cluster: &'a Cluster,
    oracle: &'a Oracle,
    http: reqwest::blocking::Client,
    token: &'a str,
}

/// What became of a write.
enum Ended {
    Succeeded,
    Failed(Value),
    Unknown,
}

impl Client<'_> {
    fn post(&self, at: usize, path: &str, body: &Value) -> Option<(u16, Value)> {
        let url = format!("{}/api/v2{path}", self.cluster.nodes[at].origin.read());
        let answer = self.http.post(url).bearer_auth(self.token).json(body).send().ok();
        let answer = answer.and_then(|answer| Some((answer.status().as_u16(), answer.json::<Value>().ok()?)));
        let name =
            answer.as_ref().map_or("no answer".to_owned(), |(status, body)| format!("{status} {}", body["code"]));
        *self.oracle.answers.lock().entry(name).or_default() += 1;
        answer
    }

    fn operation(&self, href: &str) -> Ended {
        let until = Instant::now() + Duration::from_secs(60);
        let path = &href[href.find("/api/v2").unwrap()..];
        while Instant::now() < until {
            for node in &self.cluster.nodes {
                let url = format!("{}{path}", node.origin.read());
                let answer = self.http.get(url).bearer_auth(self.token).send().ok();
                let Some(body) =
                    answer.filter(|answer| answer.status() == 200).and_then(|answer| answer.json::<Value>().ok())
                else {
                    continue;
                };
                match body["data"]["status"].as_str() {
                    Some("succeeded") => return Ended::Succeeded,
                    Some("failed" | "canceled") => return Ended::Failed(body),
                    _ => thread::sleep(Duration::from_millis(20)),
                }
            }
        }
        Ended::Unknown
    }

    fn write(&self, at: usize, table: usize, number: u64) {
        let q = format!("insert into t values ({number})");
        let body = json!({"from_branch": "main", "to_branch": "main", "q": q});
        let ended = match self.post(at, &format!("/databases/ada/{}/sql-writes", DATABASES[table]), &body) {
            Some((202, accepted)) => self.operation(accepted["data"]["href"].as_str().unwrap()),
            // The request was refused before anything was done.
            Some((429 | 503, _)) => Ended::Failed(Value::Null),
            _ => Ended::Unknown,
        };
        let mut known = self.oracle.tables[table].lock();
        match ended {
            Ended::Succeeded => {
                known.certain.insert(number);
                self.oracle.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Ended::Unknown => {
                known.open.insert(number);
                self.oracle.unknown.fetch_add(1, Ordering::Relaxed);
            }
            Ended::Failed(Value::Null) => {}
            Ended::Failed(operation) => {
                drop(known);
                self.finding(format!("write {number} to {} failed: {operation}", DATABASES[table]));
            }
        }
    }

    fn read(&self, at: usize, table: usize) -> bool {
        let before = self.oracle.tables[table].lock().certain.clone();
        let body = json!({"ref": "main", "q": "select group_concat(n) from t"});
        let answer = self.post(at, &format!("/databases/ada/{}/sql", DATABASES[table]), &body);
        let Some((200, body)) = answer else { return false };
        let rows = &body["data"]["rows"][0][0];
        let found: BTreeSet<u64> =
            rows.as_str().unwrap_or_default().split(',').filter_map(|number| number.parse().ok()).collect();
        if let Some(lost) = before.difference(&found).next() {
            self.finding(format!("a read of {} on node {at} lacks {lost}: {body}", DATABASES[table]));
        }
        let mut known = self.oracle.tables[table].lock();
        known.certain.extend(found);
        self.oracle.reads.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn finding(&self, finding: String) {
        self.oracle.findings.lock().push(finding);
    }
}

/// Ends the clients when it goes, also if the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn several_nodes_lose_nothing_under_any_fault() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let Some(postgres) = Postgres::start() else { return };
    let seed = number("NODES_SEED").unwrap_or(1);
    let count = usize::try_from(number("NODES").unwrap_or(3)).unwrap();
    let until = number("NODES_MINUTES").map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("nodes-{seed}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let cluster = Cluster::new(folder.clone(), &postgres, count);
    let token = create_user(|args| cluster.command(0, args), "ada");
    let ada = Actor::new(cluster.nodes[0].origin.read().clone(), Some(token.clone()), "ada");
    for name in DATABASES {
        ada.database(name);
        ada.write(&format!("ada/{name}"), "main", "create table t (n integer primary key)");
    }
    let oracle = Oracle::default();
    let (stop, mut faults) = (AtomicBool::new(false), BTreeMap::<&str, usize>::new());
    let client = || Client {
        cluster: &cluster,
        oracle: &oracle,
        http: reqwest::blocking::Client::builder().no_proxy().timeout(Duration::from_secs(30)).build().unwrap(),
        token: &token,
    };
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for thread in 0..CLIENTS {
            let (client, stop) = (client(), &stop);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed * 1_000 + thread as u64);
                let mut next = thread as u64 * 1_000_000;
                while !stop.load(Ordering::Relaxed) {
                    let (at, table) = (random.random_range(0..count), random.random_range(0..DATABASES.len()));
                    if random.random_bool(0.5) {
                        client.write(at, table, next);
                        next += 1;
                    } else {
                        client.read(at, table);
                    }
                }
            });
        }
        let mut random = StdRng::seed_from_u64(seed);
        let mut struck = 0;
        while oracle.findings.lock().is_empty() && until.map_or(struck < SHORT, |until| Instant::now() < until) {
            thread::sleep(Duration::from_millis(random.random_range(200..2_000)));
            let (at, fault) = (random.random_range(0..count), Fault::any(&mut random));
            cluster.strike(at, fault);
            println!("{fault:?} of node {at}, after {} writes", oracle.acknowledged.load(Ordering::Relaxed));
            *faults.entry(fault.name()).or_default() += 1;
            struck += 1;
        }
    });
    let client = client();
    for at in 0..count {
        for (table, name) in DATABASES.iter().enumerate() {
            let until = Instant::now() + Duration::from_secs(20);
            while !client.read(at, table) {
                assert!(Instant::now() < until, "node {at} does not read {name} again");
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
    for (table, known) in oracle.tables.iter().enumerate() {
        client.write(0, table, 999_999_999);
        assert!(known.lock().certain.len() > 1, "nothing was written to {}", DATABASES[table]);
    }
    println!("{:?}", oracle.answers.lock());
    println!(
        "{faults:?}; {} writes acknowledged, {} without an answer, {} reads",
        oracle.acknowledged.load(Ordering::Relaxed),
        oracle.unknown.load(Ordering::Relaxed),
        oracle.reads.load(Ordering::Relaxed)
    );
    let faulty: Vec<_> = oracle.answers.lock().keys().filter(|name| name.starts_with("500")).cloned().collect();
    assert!(faulty.is_empty(), "{faulty:?}");
    let findings = oracle.findings.lock();
    assert!(findings.is_empty(), "{findings:#?}\nlogs are in {}", folder.display());
    for node in &cluster.nodes {
        node.process.lock().take().unwrap().terminate();
    }
    assert_eq!(succeed(&mut cluster.command(0, &["doctor"])), "everything is in order");
    fs::remove_dir_all(folder).unwrap();
}
