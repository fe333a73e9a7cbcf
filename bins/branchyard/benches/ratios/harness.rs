//! A server started as in production: the real binary, with its own data folder, on a free loopback port.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use branchyard::compose::{Environment, Pending, Role, Stores};
use branchyard::config::{Config, Isolation, SqlConfig};
use branchyard_testkit::{
    Actor, Program, ServerProcess, create_user, process_status, processor_time, reset_peak_memory, wait_for,
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::load::Connection;
use crate::table::Table;

/// Setting that disables the result cache.
pub(crate) const NO_RESULTS: (&str, &str) = ("SQL__RESULT_CACHE_BYTES", "0");
pub(crate) const ONE_CALLER: &[(&str, &str)] =
    &[("RATE_LIMIT__ENABLED", "false"), ("SQL__MAX_CONCURRENT_READS_PER_CALLER", "64")];

/// A data folder with the user `bench`.
pub(crate) struct BenchHarness {
    dir: tempfile::TempDir,
    /// The binary that serves the folder.
    program: PathBuf,
    /// URL of the metadata store, unless it is in the folder.
    metadata: Option<String>,
    /// API token of the user `bench`.
    pub(crate) token: String,
}

impl BenchHarness {
    pub(crate) fn new() -> Self {
        Self::of_program(Path::new(env!("CARGO_BIN_EXE_branchyard")))
    }

    /// Creates a data folder whose metadata store is elsewhere.
    pub(crate) fn on(metadata: &str) -> Self {
        Self::create(Path::new(env!("CARGO_BIN_EXE_branchyard")), Some(metadata.to_owned()))
    }

    /// Returns the folder with another address of the same metadata store.
    pub(crate) fn moved_to(self, metadata: &str) -> Self {
        Self { metadata: Some(metadata.to_owned()), ..self }
    }

    /// Creates a data folder for another build of the binary.
    pub(crate) fn of_program(program: &Path) -> Self {
        Self::create(program, None)
    }

    fn create(program: &Path, metadata: Option<String>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut harness = Self { dir, program: program.to_owned(), metadata, token: String::new() };
        harness.token = harness.user("bench");
        harness
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Creates a user and returns an API token.
    pub(crate) fn user(&self, name: &str) -> String {
        create_user(|args| self.command(args), name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Program::at(&self.program).on(self.dir.path(), args);
        // Benches choose their limits, and see errors of the server.
        command.env_remove("BRANCHYARD_RATE_LIMIT__ENABLED").env("RUST_LOG", "error");
        if let Some(metadata) = &self.metadata {
            command.env("BRANCHYARD_METADATA_URL", metadata);
        }
        command
    }

    /// Starts the server for a single caller that makes all the load: without rate limits, with a high limit of concurrent reads
    /// per caller, and without the result cache, so that every read runs.
    pub(crate) fn start(&self) -> Server {
        self.start_with(&[ONE_CALLER, &[NO_RESULTS]].concat())
    }

    /// Starts the server like [`BenchHarness::start`], but with the default result cache.
    pub(crate) fn start_keeping_results(&self) -> Server {
        self.start_with(ONE_CALLER)
    }

    /// Opens the stores of the folder while no server uses it. The engine runs in this process, which is no program of workers.
    pub(crate) fn stores(&self) -> Stores {
        let sql = SqlConfig { isolation: Isolation::Thread, ..SqlConfig::default() };
        let config = Config { data_dir: self.path().to_owned(), sql, ..Config::default() };
        Stores::open(&config, &Environment::default(), Pending::Refuse, Role::Command).unwrap()
    }

    /// Backs everything up to a folder.
    pub(crate) fn back_up(&self, to: &Path) {
        let status = self.command(&["backup"]).arg("--to").arg(to).status().unwrap();
        assert!(status.success(), "the backup failed: {status}");
    }

    /// Starts the server with additional settings.
    pub(crate) fn start_with(&self, settings: &[(&str, &str)]) -> Server {
        let mut command = self.command(&["serve", "--listen", "127.0.0.1:0"]);
        for (key, value) in settings {
            command.env(format!("BRANCHYARD_{key}"), value);
        }
        let process = ServerProcess::try_start(&mut command).unwrap_or_else(|error| panic!("no server: {error}"));
        Server { address: process.socket(), process }
    }
}

/// A server process that is killed when the value is dropped.
pub(crate) struct Server {
    process: ServerProcess,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Returns a client for preparing data. Measured requests use a [`Connection`].
    pub(crate) fn actor(&self, name: &str, token: &str) -> Actor {
        Actor::new(format!("http://{}", self.address), Some(token.to_owned()), name)
    }

    /// Creates a public database of `bench` that holds the table `t`.
    pub(crate) fn database(&self, token: &str, name: &str, table: Table) {
        let bench = self.actor("bench", token);
        bench.database(name);
        for statements in table.script() {
            finish(&bench, &format!("/databases/bench/{name}/sql-writes"), &write(&statements));
        }
    }

    /// Returns the id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the current memory of the server, in MiB.
    pub(crate) fn memory(&self) -> f64 {
        self.mib("VmRSS")
    }

    /// Returns the peak memory since the last call of [`Server::forget_peak`], in MiB.
    pub(crate) fn peak(&self) -> f64 {
        self.mib("VmHWM")
    }

    /// Resets the peak memory.
    pub(crate) fn forget_peak(&self) {
        reset_peak_memory(self.process.id());
    }

    /// Returns the processor time used so far, in seconds.
    pub(crate) fn processor_seconds(&self) -> f64 {
        processor_time(self.process.id()).as_secs_f64()
    }

    #[expect(clippy::cast_precision_loss, reason = "a size in KiB is far below 2^53")]
    fn mib(&self, key: &str) -> f64 {
        process_status(self.process.id(), key) as f64 / 1024.0
    }
}

/// Returns the request body of a write on `main`.
pub(crate) fn write(statements: &str) -> Value {
    json!({"from_branch": "main", "to_branch": "main", "q": statements})
}

/// Posts a request that starts an operation, and waits until the operation has succeeded.
pub(crate) fn finish(who: &Actor, path: &str, body: &Value) {
    let accepted = who.post(path, body).expect(202).data();
    let mut caller = Caller::new(who.origin().trim_start_matches("http://").parse().unwrap(), who.token().unwrap());
    caller.follow(accepted["href"].as_str().unwrap());
}

/// A caller whose requests are measured, on its own connection.
pub(crate) struct Caller {
    connection: Connection,
    head: String,
}

impl Caller {
    pub(crate) fn new(address: SocketAddr, token: &str) -> Self {
        Self { connection: Connection::open(address), head: format!("Authorization: Bearer {token}\r\n") }
    }

    /// Sends a request to a path below the origin. Panics if the response is not a success.
    pub(crate) fn ask(&mut self, method: Method, path: &str, body: &str) -> Value {
        self.ask_with(method, path, "", body)
    }

    fn ask_with(&mut self, method: Method, path: &str, headers: &str, body: &str) -> Value {
        let length = body.len();
        let head = &self.head;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: bench\r\n{head}{headers}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let answer = match self.connection.ask(request.as_bytes()) {
            Ok(answer) => answer,
            Err(error) => panic!("{method} {path}: {error}"),
        };
        assert!((200..300).contains(&answer.status), "{method} {path}: {}", String::from_utf8_lossy(answer.body));
        serde_json::from_slice(answer.body).unwrap_or_default()
    }

    /// Posts a body to a path below `/api/v2` and waits until the operation has succeeded.
    pub(crate) fn finish(&mut self, path: &str, body: &str) {
        let accepted = self.ask(Method::POST, &format!("/api/v2{path}"), body);
        self.follow(accepted["data"]["href"].as_str().unwrap());
    }

    /// Posts a body to a path below `/api/v2`, and lets the answer wait until the operation has succeeded.
    pub(crate) fn finish_in_one(&mut self, path: &str, body: &str) {
        let ended = self.ask_with(Method::POST, &format!("/api/v2{path}"), "Prefer: wait=20\r\n", body);
        assert_eq!(ended["data"]["status"], "succeeded", "{ended}");
    }

    fn follow(&mut self, href: &str) {
        let path = href.split_once("://").map_or(href, |(_, rest)| &rest[rest.find('/').unwrap()..]).to_owned();
        wait_for("the end of the operation", Duration::from_secs(600), || {
            let operation = self.ask_with(Method::GET, &path, "Prefer: wait=20\r\n", "");
            match operation["data"]["status"].as_str().unwrap() {
                "succeeded" => Ok(()),
                "failed" => panic!("{operation}"),
                _ => Err(operation),
            }
        });
    }
}
