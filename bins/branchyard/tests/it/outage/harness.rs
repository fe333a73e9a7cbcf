//! The server under attack, its users, and their databases.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use branchyard_testkit::{
    AMPLE, Actor, Program, RawConnection, ServerProcess, open_sockets, process_status, wait_until,
};
use serde_json::{Value, json};

use crate::process::program;

/// Memory limit of all statements together, in bytes.
const STATEMENTS: usize = 300 << 20;
/// Number of attackers with an account. Each has its own databases and a fork of the victim's database.
pub(super) const ACCOUNTS: usize = 4;
/// Databases of an attacker, in addition to the fork.
pub(super) const OWN: [&str; 4] = ["a", "b", "c", "d"];
/// Owner of `small` and of `open`, which is the base of the forks.
pub(super) const VICTIM: &str = "vera";
/// Send timeout. The rest of a request that cannot be sent in this time is dropped.
const SEND: Duration = Duration::from_millis(200);
/// Number of bytes of an answer's body to keep.
const KEPT: usize = 1 << 20;
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
    server: ServerProcess,
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
        let program = std::env::var_os("OUTAGE_BINARY").map_or_else(program, Program::at);
        let mut command = program.serve(data);
        command.env("BRANCHYARD_SQL__MEMORY_TOTAL_BYTES", STATEMENTS.to_string());
        command.env("BRANCHYARD_METRICS__LISTEN", metrics.to_string());
        // Uses the default rate limits, which other tests disable.
        command.env_remove("BRANCHYARD_RATE_LIMIT__ENABLED");
        // Hooks may reach this machine only with this setting.
        command.env("BRANCHYARD_HOOKS__ALLOWED_CIDRS", "127.0.0.0/8");
        command.env("BRANCHYARD_HOSTED__PORT_RANGE", PORTS);
        let log = dir.join("log");
        command.stderr(File::create(&log).unwrap());
        let server = ServerProcess::try_start(&mut command).unwrap_or_else(|error| panic!("no server: {error}"));
        let address = server.socket();
        let victim = program.user(data, VICTIM);
        let accounts = (0..ACCOUNTS).map(|number| program.user(data, &account(number))).collect();
        let mut harness =
            Self { server, address, metrics, size, victim, accounts, log, silent, deployment: String::new() };
        harness.fill();
        harness
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
        wait_until("the start of the deployment", AMPLE, || {
            send(reqwest::Method::GET, &path)(None)["data"]["state"] == "started"
        });
        format!("{path}/sql/v2/pipeline")
    }

    fn actor(&self, name: &str, token: Option<&str>) -> Actor {
        Actor::new(self.server.origin.clone(), token.map(str::to_owned), name)
    }

    pub(super) fn token(&self, account: Option<usize>) -> &str {
        account.map_or(&self.victim, |number| &self.accounts[number])
    }

    /// Connects from an address of this machine.
    pub(super) fn connect(&self, from: Ipv4Addr) -> std::io::Result<RawConnection> {
        let mut connection = RawConnection::open_from(from, self.address)?;
        connection.limit_sending(SEND);
        connection.keep(KEPT);
        Ok(connection)
    }

    /// Returns the server's metrics and the state of its process.
    pub(super) fn measures(&self) -> Measures {
        let mut connection = RawConnection::open(self.metrics);
        connection.begin("GET /metrics", "connection: close", b"");
        let text = connection.answer().expect(200).text();
        let series = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let process = self.server.id();
        Measures {
            series: text.lines().filter_map(series).collect(),
            threads: process_status(process, "Threads"),
            sockets: open_sockets(process) as u64,
            peak_mib: process_status(process, "VmHWM") >> 10,
        }
    }

    /// Stops the server, asserts that it exits successfully, and returns its log. A second signal follows after a second, because
    /// the attackers' writes may run for a minute.
    pub(super) fn stop(mut self) -> String {
        self.server.signal();
        if self.server.ended_within(Duration::from_secs(1)).is_none() {
            self.server.signal();
        }
        let ended = self.server.ended_within(AMPLE).unwrap();
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
