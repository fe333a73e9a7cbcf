//! Pushes and fetches by an unmodified client over TLS, which is the program's own `push` and `pull`, compared with the same client's
//! push into a file; and what branches that are far apart cost a page.

use std::net::TcpListener;

use std::process::Command;
use std::time::Instant;

use branchyard_remote_protocol::{
    BranchEntry, Hash, RefUpdate, Refs, Scope, encode_hashes, encode_record, found_chunks, hash_of, layout,
};
use branchyard_testkit::Actor;
use rcgen::{CertificateParams, KeyPair, SanType};
use reqwest::Method;
use rusqlite::Connection;
use serde_json::json;

use crate::flags::Flags;
use crate::harness::{BenchHarness, ONE_CALLER, Server};
use crate::report::{Aim, Row};
use crate::slices::{alternate, median, millis};
use crate::table::Table;

/// Branches that are far apart.
const BRANCHES: usize = 30;
/// Rows that change between two fetches.
const CHANGED: u64 = 10;
/// Rows of the small table whose fetch is the baseline.
const SMALL: u64 = 1_000;
/// The sum of the seconds that pushes were checked.
const CHECKED: &str = "branchyard_remote_push_seconds_sum{phase=\"check\"}";

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let (rows, columns, repeats) = (flags.count("--rows"), flags.count("--columns"), flags.count("--repeats"));
    let mut measured = branches_page(flags.count("--commits"), repeats);
    let client = SecureClient::start();

    client.file("large.db", Table::new(rows, columns));
    let (mut pushes, mut checks, mut disk, mut peak) = (Vec::new(), Vec::new(), Vec::new(), 0.0_f64);
    for n in 0..=repeats {
        let (database, file) = (format!("large{n}"), format!("disk{n}"));
        client.database(&database);
        client.add_remote("large.db", &database, &client.url(&database));
        client.add_remote("large.db", &file, &format!("file://{}.db", client.folder.path().join(&file).display()));
        let before = client.metric(CHECKED);
        client.server.forget_peak();
        let took = client.run(&["push", "--file", "large.db", "--remote", &database]);
        peak = peak.max(client.server.peak());
        let check = (client.metric(CHECKED) - before) * 1_000.0;
        pushes.push(took - check);
        checks.push(check);
        disk.push(client.run(&["push", "--file", "large.db", "--remote", &file]));
    }
    let ratio = pushes.iter().zip(&disk).skip(1).map(|(push, disk)| push / disk).collect();
    measured.push(Row {
        name: "push",
        what: format!("first push of {rows} rows with an index, without its check"),
        product: format!("{:.0} ms", median(pushes[1..].to_vec())),
        baseline: format!("into a file by the same client: {:.0} ms", median(disk[1..].to_vec())),
        value: Some(median(ratio)),
        unit: "",
        aim: Aim::AtMost(1.5),
    });
    let check = median(checks[1..].to_vec());
    measured.push(Row::alone(
        "push, check",
        format!("its check: {rows} rows and an index"),
        check,
        "ms",
        Aim::AtMost(5_000.0),
    ));

    client.file("small.db", Table::new(SMALL, columns));
    client.database("small");
    client.add_remote("small.db", "origin", &client.url("small"));
    client.server.forget_peak();
    client.run(&["push", "--file", "small.db"]);
    measured.push(Row {
        baseline: format!("of {SMALL} rows: {:.0} MiB", client.server.peak()),
        ..Row::alone(
            "push, memory",
            format!("peak of the server in a push of {rows} rows"),
            peak,
            "MiB",
            Aim::AtMost(512.0),
        )
    });
    client.add_remote("large.db", "origin", &client.url("large0"));
    for name in ["small", "large0"] {
        client.run(&["clone", &client.url(name), &format!("{name}-reader.db")]);
    }
    let fetch = |writer: &str, reader: &str| {
        client.change(writer);
        client.run(&["push", "--file", writer]);
        client.run(&["pull", "--file", reader])
    };
    let fetches = alternate(repeats, || fetch("large.db", "large0-reader.db"), || fetch("small.db", "small-reader.db"));
    measured.push(fetches.row(
        "fetch",
        format!("pull of {CHANGED} changed rows of {rows}"),
        &format!("of {SMALL}"),
        "ms",
        Aim::AtMost(2.0),
    ));
    measured
}

/// The program as a client, and a server with TLS.
struct SecureClient {
    folder: tempfile::TempDir,
    harness: BenchHarness,
    server: Server,
    metrics: String,
    actor: Actor,
}

impl SecureClient {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        parameters.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
        let certificate = parameters.self_signed(&key).unwrap().pem();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("cert.pem"), &certificate).unwrap();
        std::fs::write(path("key.pem"), key.serialize_pem()).unwrap();
        let metrics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let harness = BenchHarness::new();
        let text = |name: &str| path(name).to_str().unwrap().to_owned();
        let (cert, key) = (text("cert.pem"), text("key.pem"));
        let settings = [
            ONE_CALLER,
            &[("TLS__CERT", &*cert), ("TLS__KEY", &*key), ("METRICS__LISTEN", &*metrics), ("LOG__ACCESS", "0")],
        ]
        .concat();
        let server = harness.start_with(&settings);
        let root = reqwest::Certificate::from_pem(certificate.as_bytes()).unwrap();
        let trusting = reqwest::blocking::Client::builder().no_proxy().add_root_certificate(root).build().unwrap();
        let origin = format!("https://{}", server.address);
        let actor = Actor::new(origin, Some(harness.token.clone()), "bench").with_client(trusting);
        let client = Self { folder, harness, server, metrics, actor };
        let made = client.command(&["key", "new"]).output().unwrap();
        let made = String::from_utf8(made.stdout).unwrap();
        let public_key = made.lines().find_map(|line| line.strip_prefix("public key ")).unwrap();
        client.actor.post("/user/keys", &json!({"name": "bench", "public_key": public_key})).expect(201);
        client
    }

    fn url(&self, database: &str) -> String {
        format!("https://{}/bench/{database}", self.server.address)
    }

    fn database(&self, name: &str) {
        self.actor.database(name);
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.harness.program());
        command.args(arguments).current_dir(self.folder.path()).env("HOME", self.folder.path());
        command.env("DOLTLITE_CA_FILE", self.folder.path().join("cert.pem"));
        command
    }

    /// Runs a command of the client. Returns its time in milliseconds.
    fn run(&self, arguments: &[&str]) -> f64 {
        let began = Instant::now();
        let output = self.command(arguments).output().unwrap();
        let took = began.elapsed().as_secs_f64() * 1_000.0;
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        took
    }

    fn open(&self, file: &str) -> Connection {
        Connection::open(self.folder.path().join(file)).unwrap()
    }

    /// Makes a file with a table and an index.
    fn file(&self, name: &str, table: Table) {
        let file = self.open(name);
        for statement in table.script() {
            file.execute_batch(&statement).unwrap();
        }
        file.execute_batch("create index by_name on t(name)").unwrap();
        commit(&file, "all rows");
    }

    /// Changes a few rows.
    fn change(&self, name: &str) {
        let file = self.open(name);
        let statement = format!("update t set value = value + 1 where id <= {CHANGED}");
        file.execute_batch(&statement).unwrap();
        commit(&file, "a few rows");
    }

    fn add_remote(&self, file: &str, name: &str, url: &str) {
        self.open(file).query_row("select dolt_remote('add', ?1, ?2)", [name, url], |_| Ok(())).unwrap();
    }

    fn metric(&self, series: &str) -> f64 {
        let client = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
        let text = client.get(format!("http://{}/metrics", self.metrics)).send().unwrap().text().unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {series} in {text}")).parse().unwrap()
    }
}

fn commit(file: &Connection, message: &str) {
    file.query_row("select dolt_commit('-A', '-m', ?1)", [message], |_| Ok(())).unwrap();
}

/// Times the page of branches whose histories have nothing in common but their first commit.
fn branches_page(commits: u64, repeats: u64) -> Vec<Row> {
    let harness = BenchHarness::new();
    let server = harness.start();
    server.database(&harness.token, "apart", Table::new(10, 3));
    let bench = server.actor("bench", &harness.token);
    let remote = |method: Method, endpoint: &str, body: Vec<u8>| {
        let request = bench.plain(method, &format!("/bench/apart/{endpoint}")).bearer_auth(&harness.token);
        let response = request.header("content-type", "application/octet-stream").body(body).send().unwrap();
        let status = response.status();
        let bytes = response.bytes().unwrap().to_vec();
        assert!(status.is_success(), "{endpoint}: {status} {}", String::from_utf8_lossy(&bytes));
        bytes
    };
    let seen = remote(Method::GET, "refs", Vec::new());
    let root = Refs::parse(&seen).unwrap().branches[0].head;
    let answer = remote(Method::POST, "get-chunks", encode_hashes(&[root]));
    let chunk = found_chunks(&answer, 1).unwrap()[0].unwrap().to_vec();
    let catalog = layout::commit(&chunk).unwrap().catalog;
    for branch in 0..BRANCHES {
        let (mut tip, mut body) = (root, Vec::new());
        for n in 0..commits {
            let next = commit_chunk(tip, catalog, &format!("commit {n} of branch {branch}"));
            tip = hash_of(&next);
            encode_record(&mut body, &next);
        }
        remote(Method::POST, "chunks", body);
        let name = format!("branch-{branch}");
        let refs = Refs {
            default_branch: name.clone(),
            branches: vec![BranchEntry { name: name.clone(), head: tip }],
            tags: Vec::new(),
        };
        let expected = hash_of(&remote(Method::GET, "refs", Vec::new()));
        let update = RefUpdate { scope: Scope::Branch(&name), is_forced: false, expected, refs };
        remote(Method::PUT, "refs-if", update.encode());
    }
    let page =
        || millis(|| assert!(bench.plain(Method::GET, "/bench/apart/branches").send().unwrap().status().is_success()));
    let first = page();
    let later = median((0..repeats).map(|_| page()).collect());
    let what = format!("page of {BRANCHES} branches of {commits} commits each");
    vec![
        Row::alone("branches, first", format!("first {what}"), first, "ms", Aim::AtMost(250.0)),
        Row::alone("branches", format!("later {what}"), later, "ms", Aim::AtMost(250.0)),
    ]
}

/// Returns a commit without a change.
fn commit_chunk(parent: Hash, catalog: Hash, message: &str) -> Vec<u8> {
    let mut bytes = vec![2, 1];
    bytes.extend(parent);
    bytes.extend(catalog);
    bytes.extend(1_767_323_045_i64.to_le_bytes());
    for text in ["bench", "bench@example.test", message] {
        bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}
