//! The server under attack, its users, and their databases.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use branchyard_testkit::Actor;
use serde_json::{Value, json};

use super::wire::{Outcome, RawAnswer, Wire};
use crate::process::{Server, branchyard, branchyard_at, succeed};

/// Memory limit of all statements together, in bytes.
const STATEMENTS: usize = 300 << 20;
/// Number of attackers with an account. Each has its own databases and a fork of the victim's database.
pub(super) const ACCOUNTS: usize = 4;
/// Databases of an attacker, in addition to the fork.
pub(super) const OWN: [&str; 4] = ["a", "b", "c", "d"];
/// Owner of `small` and of `open`, which is the base of the forks.
pub(super) const VICTIM: &str = "vera";
/// Timeout of the preparations, far above their usual duration.
const PATIENCE: Duration = Duration::from_secs(300);
/// Port range of instances. Other tests use other ranges.
const PORTS: &str = "22300-22399";

/// Scale of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    /// Number of rows in the shared tables, and therefore in their diffs.
    pub(super) rows: usize,
    /// Number of connections per attack.
    pub(super) connections: usize,
    /// Size in bytes of a file to import.
    pub(super) file: usize,
    /// Time after which an attacker disconnects.
    pub(super) patience: Duration,
}

pub(super) struct OutageHarness {
    server: Server,
    pub(super) address: SocketAddr,
    metrics: SocketAddr,
    pub(super) size: Size,
    victim: String,
    accounts: Vec<String>,
    log: PathBuf,
    /// A receiver that accepts connections and never answers.
    pub(super) silent: TcpListener,
    /// SQL path of the first account's deployment.
    pub(super) deployment: String,
}

impl OutageHarness {
    pub(super) fn start(dir: &Path, size: Size) -> Self {
        let data = &dir.join("data");
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let metrics = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        // `cargo xtask outage` sets this variable.
        let mut command = std::env::var_os("OUTAGE_BINARY").map_or_else(branchyard, |program| branchyard_at(&program));
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data);
        command.env("BRANCHYARD_SQL__MEMORY_TOTAL_BYTES", STATEMENTS.to_string());
        command.env("BRANCHYARD_METRICS__LISTEN", metrics.to_string());
        // Uses the default rate limits, which other tests disable.
        command.env_remove("BRANCHYARD_RATE_LIMIT__ENABLED");
        // Hooks may reach this machine only with this setting.
        command.env("BRANCHYARD_HOOKS__ALLOWED_CIDRS", "127.0.0.0/8");
        command.env("BRANCHYARD_HOSTED__PORT_RANGE", PORTS);
        let log = dir.join("log");
        command.stderr(File::create(&log).unwrap());
        let server = Server::begin(&mut command).unwrap_or_else(|said| panic!("the server did not listen: {said}"));
        let address = server.origin.strip_prefix("http://").unwrap().parse().unwrap();
        let token = |name: &str| {
            succeed(data, &["user", "create", name, "--email", &format!("{name}@example.test")]);
            succeed(data, &["token", "create", "--user", name, "--name", "t", "--expires", "30d"])
        };
        let victim = token(VICTIM);
        let accounts = (0..ACCOUNTS).map(|number| token(&account(number))).collect();
        let mut scene =
            Self { server, address, metrics, size, victim, accounts, log, silent, deployment: String::new() };
        scene.fill();
        scene
    }

    /// Creates the databases, the forks, and pull requests from the forks that conflict with their base in every row.
    fn fill(&mut self) {
        let rows = self.size.rows;
        let numbers = format!("with recursive n(x) as (select 1 union all select x + 1 from n where x < {rows})");
        let victim = self.actor(VICTIM, Some(&self.victim));
        victim.database("small");
        victim.database("open");
        victim.write(
            "vera/small",
            "main",
            "create table t (id integer primary key, v text); create table log (n integer);
             with recursive n(x) as (select 1 union all select x + 1 from n where x < 1000)
             insert into t select x, 'value ' || x from n",
        );
        victim.write(
            "vera/open",
            "main",
            &format!(
                "create table t (id integer primary key, v text); create table log (n integer);
                 create table docs (id integer primary key, doc text);
                 {numbers} insert into t select x, 'value ' || x from n;
                 {numbers} insert into docs select 1, json_group_array(json_object('k', x, 'v', 'text ' || x)) from n"
            ),
        );
        let forks: Vec<(Actor, String)> = (0..ACCOUNTS)
            .map(|number| {
                let name = account(number);
                let actor = self.actor(&name, Some(&self.accounts[number]));
                for own in OWN {
                    actor.database(own);
                }
                let forked = actor.post("/databases/vera/open/forks", &json!({"owner": name}));
                assert_eq!(actor.finish(&forked)["status"], "succeeded");
                (actor, format!("{name}/open"))
            })
            .collect();
        victim.write("vera/open", "main", "update t set v = v || ' of the base'");
        for (actor, fork) in &forks {
            let body = json!({
                "from_branch": "main", "to_branch": "work", "q": format!("update t set v = v || ' of {fork}'"),
            });
            actor.finish(&actor.post(&format!("/databases/{fork}/sql-writes"), &body));
            let (owner, name) = fork.split_once('/').unwrap();
            let pull = json!({
                "title": "a conflict in every row",
                "from_branch": {"database": {"owner": owner, "name": name}, "branch_name": "work"},
                "to_branch": {"database": {"owner": VICTIM, "name": "open"}, "branch_name": "main"},
            });
            actor.post("/databases/vera/open/pulls", &pull).expect(201);
        }
        self.deployment = self.deploy();
    }

    /// Starts a deployment of the first account and returns its SQL path.
    fn deploy(&self) -> String {
        let account = account(0);
        let actor = self.actor(&account, Some(&self.accounts[0]));
        let wanted = json!({
            "owner": account, "name": "gauges", "cloud": "local", "zone": "local", "instance_type_id": "local.small",
            "volume_type_id": "local.standard", "volume_size_gb": 2,
        });
        let path = format!("/api/v1/deployments/{account}/gauges");
        let send = |method: reqwest::Method, path: &str| {
            let request = actor.plain(method, path).bearer_auth(&self.accounts[0]);
            move |body: Option<&Value>| -> Value {
                let request = match body {
                    Some(body) => request.json(body),
                    None => request,
                };
                request.send().unwrap().json().unwrap()
            }
        };
        let made = send(reqwest::Method::POST, "/api/v1/deployments")(Some(&wanted));
        assert_eq!(made["data"]["state"], "starting", "{made}");
        let began = Instant::now();
        while send(reqwest::Method::GET, &path)(None)["data"]["state"] != "started" {
            assert!(began.elapsed() < PATIENCE, "the deployment does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        format!("{path}/sql/v2/pipeline")
    }

    fn actor(&self, name: &str, token: Option<&str>) -> Actor {
        Actor::new(self.server.origin.clone(), token.map(str::to_owned), name)
    }

    pub(super) fn token(&self, account: Option<usize>) -> &str {
        account.map_or(&self.victim, |number| &self.accounts[number])
    }

    pub(super) fn wire(&self, from: Ipv4Addr) -> std::io::Result<Wire> {
        Wire::open(from, self.address)
    }

    /// Returns the server's metrics and the state of its process.
    pub(super) fn measures(&self) -> Measures {
        let mut wire = Wire::open(Ipv4Addr::LOCALHOST, self.metrics).unwrap();
        wire.send(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let Outcome::Answered(RawAnswer { status: 200, body, .. }) = wire.answer(Instant::now() + PATIENCE) else {
            panic!("no metrics")
        };
        let text = String::from_utf8(body).unwrap();
        let series = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let folder = format!("/proc/{}", self.server.id());
        let status = std::fs::read_to_string(format!("{folder}/status")).unwrap();
        let number = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        Measures {
            series: text.lines().filter_map(series).collect(),
            threads: number("Threads"),
            sockets: self.server.sockets() as u64,
            peak_mib: number("VmHWM") >> 10,
        }
    }

    /// Stops the server, asserts that it exits successfully, and returns its log. A second signal follows after a second, because
    /// the attackers' writes may run for a minute.
    pub(super) fn stop(mut self) -> String {
        self.server.signal();
        if self.server.ended_within(Duration::from_secs(1)).is_none() {
            self.server.signal();
        }
        let ended = self.server.ended_within(PATIENCE).unwrap();
        assert!(ended.success(), "{ended}");
        std::fs::read_to_string(self.log).unwrap()
    }
}

pub(super) fn account(number: usize) -> String {
    format!("mallory{number}")
}

/// Metrics of the server, and the kernel's view of its process.
pub(super) struct Measures {
    series: BTreeMap<String, f64>,
    pub(super) threads: u64,
    /// Number of open sockets. Files are not counted, because accepted operations have databases open.
    pub(super) sockets: u64,
    /// Peak memory in MiB.
    pub(super) peak_mib: u64,
}

impl Measures {
    /// Returns the value of a metric by its name with labels.
    pub(super) fn value(&self, series: &str) -> f64 {
        *self.series.get(series).unwrap_or_else(|| panic!("no {series} in {:?}", self.series))
    }
}
