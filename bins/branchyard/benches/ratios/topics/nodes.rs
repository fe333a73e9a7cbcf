//! Nodes over one Postgres and one store of objects: how reads and writes scale, what a slow PUT costs a write, how fast a database
//! comes to a node, how long a lost node's databases wait, and what a store in a cloud would cost.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_testkit::{Actor, Program, ServerProcess, create_user, wait_for};
use reqwest::Method;

use crate::flags::Flags;
use crate::harness::{Caller, NO_RESULTS, ONE_CALLER, write};
use crate::load::Connection;
use crate::object_server::{BUCKET, ObjectServer};
use crate::report::{Aim, Row};
use crate::slices::{alternate, median, millis};
use crate::table::Table;
use crate::topics::forks::heavy;
use crate::topics::reads::PATH;
use crate::topics::writers::as_float;

/// Delays of a PUT. A store beside the nodes takes a few milliseconds, one in a cloud 10 to 30.
const DELAYS: [(&str, u64); 3] = [("nodes, PUT of 0 ms", 0), ("nodes, PUT of 5 ms", 5), ("nodes, PUT of 20 ms", 20)];
/// `cluster.lease`, the default.
const LEASE_SECONDS: f64 = 10.0;
/// Ranges that a node reads at once, and the size of one.
const GETS: usize = 16;
const RANGE: usize = 8 << 20;
/// Time between two marks of a node that writes.
const MARK_SECONDS: f64 = 5.0;

/// List prices of S3 Standard in us-east-1, in US dollars.
const PER_THOUSAND_PUTS: f64 = 0.005;
const PER_GB_MONTH: f64 = 0.023;
/// What the cost is for.
const COST_DATABASES: f64 = 10_000.0;
const COST_NODES: f64 = 3.0;
const DAYS: f64 = 30.0;

/// What the nodes share.
struct BenchCluster {
    dir: tempfile::TempDir,
    postgres: String,
    store: ObjectServer,
    token: String,
    /// Every insert uses its own row id.
    next: AtomicU64,
    seconds: f64,
}

impl BenchCluster {
    fn new(postgres: &str, first_id: u64, seconds: f64) -> Self {
        let (dir, store) = (tempfile::tempdir().unwrap(), ObjectServer::start());
        std::fs::write(dir.path().join("server_key"), [7; 32]).unwrap();
        let (postgres, next) = (postgres.to_owned(), AtomicU64::new(first_id));
        let mut cluster = Self { dir, postgres, store, token: String::new(), next, seconds };
        cluster.token = create_user(|args| cluster.command(None, "node-0", args), "bench");
        cluster
    }

    /// Returns a command on the folder of a node. A node on a `core` runs there alone.
    fn command(&self, core: Option<usize>, node: &str, args: &[&str]) -> Command {
        let mut own = Program::at(env!("CARGO_BIN_EXE_branchyard")).on(&self.dir.path().join(node), args);
        own.env_remove("BRANCHYARD_RATE_LIMIT__ENABLED").env("RUST_LOG", "error");
        let mut command = match core {
            None => own,
            Some(core) => {
                let mut pinned = Command::new("taskset");
                pinned.arg("-c").arg(core.to_string()).arg(own.get_program()).args(own.get_args());
                for (name, value) in own.get_envs() {
                    match value {
                        Some(value) => pinned.env(name, value),
                        None => pinned.env_remove(name),
                    };
                }
                pinned
            }
        };
        command.env("BRANCHYARD_METADATA_URL", &self.postgres).env("BRANCHYARD_NODE_ID", node);
        command.env("BRANCHYARD_STORE_URL", format!("s3://{BUCKET}"));
        command.env("BRANCHYARD_STORE__ENDPOINT", format!("http://{}", self.store.address));
        command.env("BRANCHYARD_STORE__ALLOW_HTTP", "true").env("BRANCHYARD_STORE__ACCESS_KEY_ID", "bench");
        command.env("BRANCHYARD_STORE__SECRET_ACCESS_KEY", "bench");
        command.env("BRANCHYARD_SERVER_KEY_FILE", self.dir.path().join("server_key"));
        command
    }

    fn start(&self, node: usize, cores: usize) -> ServerProcess {
        let core = (cores > 0).then(|| node % cores);
        let mut command = self.command(core, &format!("node-{node}"), &["serve", "--listen", "127.0.0.1:0"]);
        for (key, value) in ONE_CALLER.iter().chain([&NO_RESULTS, &("LOG__ACCESS", "0")]) {
            command.env(format!("BRANCHYARD_{key}"), value);
        }
        ServerProcess::try_start(&mut command).unwrap_or_else(|error| panic!("no server: {error}"))
    }

    fn actor(&self, node: &ServerProcess) -> Actor {
        Actor::new(node.origin.clone(), Some(self.token.clone()), "bench")
    }

    fn database(&self, node: &ServerProcess, name: &str, table: Table) {
        let bench = self.actor(node);
        bench.database(name);
        for statements in table.script() {
            bench.write(&format!("bench/{name}"), "main", &statements);
        }
    }

    fn insert(&self) -> String {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        write(&format!("insert into t (id, name, value) values ({id}, 'row number {id}', {id} / 7.0)")).to_string()
    }

    /// Returns what callers do per second together. Each has a node and a database of its own.
    fn rate(&self, places: &[(&ServerProcess, String)], work: impl Fn(&mut Caller, &str) + Sync) -> f64 {
        let (done, began) = (AtomicU64::new(0), Instant::now());
        thread::scope(|scope| {
            for (node, database) in places {
                let (done, work) = (&done, &work);
                scope.spawn(move || {
                    let mut caller = Caller::new(node.socket(), &self.token);
                    while began.elapsed() < Duration::from_secs_f64(self.seconds) {
                        work(&mut caller, database);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        as_float(done.into_inner()) / began.elapsed().as_secs_f64()
    }

    fn writes(&self, places: &[(&ServerProcess, String)]) -> f64 {
        self.rate(places, |caller, database| self.write(caller, database))
    }

    fn write(&self, caller: &mut Caller, database: &str) {
        caller.finish_in_one(&format!("/databases/bench/{database}/sql-writes"), &self.insert());
    }
}

/// Reads a row by primary key.
fn read(caller: &mut Caller, database: &str) {
    let path = PATH.replace("bench/bench", &format!("bench/{database}"));
    caller.ask(Method::GET, &format!("{path}select+*+from+t+where+id=7"), "");
}

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let Some(url) = &flags.nodes_postgres else {
        return vec![Row::skipped("nodes", "no empty database is named; --nodes-postgres URL names one".to_owned())];
    };
    let (table, callers) = (Table::new(1_000, 3), usize::try_from(flags.count("--databases")).unwrap());
    let is_pinned = Command::new("taskset").arg("--version").output().is_ok();
    let cores = if is_pinned { thread::available_parallelism().map_or(0, std::num::NonZero::get) } else { 0 };
    let cluster = BenchCluster::new(url, table.rows + 1, flags.number("--seconds"));
    let nodes: Vec<ServerProcess> = (0..3).map(|node| cluster.start(node, cores)).collect();
    let mut rows = scaling(&cluster, &nodes, table, (callers, cores), flags.count("--slices"));
    rows.extend(delays(&cluster, &nodes[0], table, flags.count("--repeats")));
    rows.push(cost(&cluster, &nodes[0], flags));
    rows.push(hydration(&cluster, &nodes, flags));
    rows.push(failover(&cluster, nodes, table));
    rows
}

/// Measures reads and writes on two and three nodes beside those on one. Each node leads the databases that are written through it.
fn scaling(
    cluster: &BenchCluster,
    nodes: &[ServerProcess],
    table: Table,
    (callers, cores): (usize, usize),
    slices: u64,
) -> Vec<Row> {
    let places = |count: usize| {
        let place = |number: usize| {
            let (node, name) = (&nodes[number % count], format!("on{count}x{number}"));
            cluster.database(node, &name, table);
            (node, name)
        };
        (0..callers).map(place).collect::<Vec<_>>()
    };
    let pinned = if cores == 0 { "not pinned".to_owned() } else { format!("pinned to {cores} cores in turn") };
    let one = places(1);
    let mut rows = Vec::new();
    for (count, reads, writes) in
        [(2, "nodes, 2, reads", "nodes, 2, writes"), (3, "nodes, 3, reads", "nodes, 3, writes")]
    {
        let many = places(count);
        let what = |kind: &str| {
            format!("{kind} by {callers} callers on {count} nodes, {pinned}, beside Postgres, store and load")
        };
        let done = alternate(slices, || cluster.rate(&many, read), || cluster.rate(&one, read));
        rows.push(done.row(reads, what("reads by primary key"), "one node", "/s", Aim::None));
        let done = alternate(slices, || cluster.writes(&many), || cluster.writes(&one));
        rows.push(done.row(writes, what("sql-writes"), "one node", "/s", Aim::None));
    }
    rows
}

/// Measures writes of one caller while PUTs take longer.
fn delays(cluster: &BenchCluster, node: &ServerProcess, table: Table, repeats: u64) -> Vec<Row> {
    cluster.database(node, "delayed", table);
    let mut caller = Caller::new(node.socket(), &cluster.token);
    let rows = DELAYS.map(|(name, delay)| {
        cluster.store.delay_puts(Duration::from_millis(delay));
        let times = (0..repeats * 10).map(|_| millis(|| cluster.write(&mut caller, "delayed"))).collect();
        let what = "sql-write, one caller, median".to_owned();
        Row::alone(name, what, median(times), "ms", Aim::None)
    });
    cluster.store.delay_puts(Duration::ZERO);
    rows.into()
}

/// Calculates what the store of 10,000 databases costs a month, from the PUTs that writes make here.
fn cost(cluster: &BenchCluster, node: &ServerProcess, flags: &Flags) -> Row {
    let (writes, megabytes) = (flags.number("--cost-writes"), flags.number("--cost-mb"));
    let mut caller = Caller::new(node.socket(), &cluster.token);
    let measured = 500;
    let before = cluster.store.puts();
    for _ in 0..measured {
        cluster.write(&mut caller, "delayed");
    }
    // Compactions follow within ten seconds.
    thread::sleep(Duration::from_secs(12));
    let each = as_float(cluster.store.puts() - before) / as_float(measured);
    let marks = COST_NODES * DAYS * 86_400.0 / MARK_SECONDS;
    let puts = each * writes * DAYS * COST_DATABASES + marks;
    let dollars = puts / 1_000.0 * PER_THOUSAND_PUTS + COST_DATABASES * megabytes / 1_000.0 * PER_GB_MONTH;
    let what = format!(
        "a month of 10,000 databases of {megabytes} MB with {writes} separate writes a day each, {COST_NODES} nodes: {each:.2} PUTs a write \
         (measured, compactions included) and a mark each {MARK_SECONDS} s and node, at ${PER_THOUSAND_PUTS} per 1,000 PUTs and \
         ${PER_GB_MONTH} per GB; without GETs, traffic out of the region, and garbage that waits for its collection"
    );
    Row::alone("nodes, cost", what, dollars, "USD", Aim::None)
}

/// Measures how fast a large database comes to a node that lacks it, beside its objects read as fast as the store gives them.
fn hydration(cluster: &BenchCluster, nodes: &[ServerProcess], flags: &Flags) -> Row {
    let before: Vec<String> = cluster.store.objects("").into_iter().map(|(key, _)| key).collect();
    heavy(&cluster.actor(&nodes[0]), "heavy", flags.count("--fork-mb"));
    let objects: Vec<_> = cluster.store.objects("").into_iter().filter(|(key, _)| !before.contains(key)).collect();
    let bytes: usize = objects.iter().map(|(_, bytes)| bytes).sum();
    let mut times: Vec<f64> = Vec::new();
    for node in &nodes[1..] {
        times.push(millis(|| {
            let mut caller = Caller::new(node.socket(), &cluster.token);
            caller.ask(
                Method::GET,
                &PATH.replace("bench/bench", "bench/heavy").replace("?q=", "?q=select+1+from+t+limit+1"),
                "",
            );
        }));
    }
    let store = millis(|| read_all(cluster, &objects));
    #[expect(clippy::cast_precision_loss, reason = "a size of objects is far below 2^53")]
    let megabytes = bytes as f64 / 1e6;
    let each = |time: f64| megabytes / time * 1e3;
    let time = median(times);
    Row {
        baseline: format!("the same objects, {GETS} GETs at once, by the bench: {:.0} MB/s", each(store)),
        product: format!("{:.0} MB/s", each(time)),
        ..Row::alone(
            "nodes, hydration",
            format!("first read of a database of {megabytes:.0} MB on a node that lacks it"),
            time / store,
            "",
            Aim::AtMost(1.2),
        )
    }
}

/// Reads objects in ranges, several at once.
fn read_all(cluster: &BenchCluster, objects: &[(String, usize)]) {
    let ranges: Vec<(&str, usize, usize)> = objects
        .iter()
        .flat_map(|(key, bytes)| {
            (0..*bytes).step_by(RANGE).map(|start| (key.as_str(), start, bytes.min(&(start + RANGE)) - 1))
        })
        .collect();
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..GETS {
            scope.spawn(|| {
                let mut connection = Connection::open(cluster.store.address);
                while let Some((key, start, end)) =
                    ranges.get(usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap())
                {
                    let request =
                        format!("GET /{BUCKET}/{key} HTTP/1.1\r\nHost: bench\r\nRange: bytes={start}-{end}\r\n\r\n");
                    let answer = connection.ask(request.as_bytes()).unwrap();
                    assert_eq!((answer.status, answer.body.len()), (206, end + 1 - start));
                }
            });
        }
    });
}

/// Kills the node that leads a database, and measures how long a write on another one waits.
fn failover(cluster: &BenchCluster, mut nodes: Vec<ServerProcess>, table: Table) -> Row {
    let leader = nodes.remove(1);
    cluster.database(&leader, "lost", table);
    let other = cluster.actor(&nodes[0]);
    other.write("bench/lost", "main", "insert into t (id, name) values (900001, 'passed on')");
    leader.kill();
    let waited = millis(|| {
        let mut caller = Caller::new(nodes[0].socket(), &cluster.token);
        let accepted = caller.ask(Method::POST, "/api/v2/databases/bench/lost/sql-writes", &cluster.insert());
        let id = accepted["data"]["id"].as_str().unwrap().to_owned();
        wait_for("the write on another node", Duration::from_secs(120), || {
            let operation = caller.ask(Method::GET, &format!("/api/v2/operations/{id}"), "");
            match operation["data"]["status"].as_str().unwrap() {
                "succeeded" => Ok(()),
                "failed" => panic!("{operation}"),
                _ => Err(operation),
            }
        });
    });
    let what = format!(
        "a node is killed, until a write to its database has succeeded elsewhere, with a lease of {LEASE_SECONDS} s"
    );
    Row::alone("nodes, failover", what, waited / 1e3, "s", Aim::AtMost(LEASE_SECONDS + 2.0))
}
