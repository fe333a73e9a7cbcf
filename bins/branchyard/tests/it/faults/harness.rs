//! A server with its folder, store, and receivers, and the record of what was acknowledged.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use branchyard_testkit::{AMPLE, ServerProcess, create_user, wait_for, wait_until};
use parking_lot::{Mutex, MutexGuard, RwLock};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use super::client::{Ask, Body, Client};
use super::clock::{self, Clock};
use super::disk::{Disk, small_disks};
use super::expected_state::{Book, Effect};
use super::plan::Plan;
use super::postgres::Postgres;
use super::receivers::{MANNERS, Receivers};
use super::traffic::{TrafficHarness, settled};
use crate::process::program;

/// Limit of the time until the server is idle after a fault.
const QUIET: Duration = Duration::from_secs(600);

/// Behaviors whose receivers get all events. The others are slow, so they get only pull request events.
const ALL_EVENTS: [&str; 3] = ["good", "failing", "dropping"];

pub(super) struct FaultsHarness<'a> {
    folder: PathBuf,
    pub(super) disk: Option<Disk>,
    pub(super) clock: Option<Clock>,
    pub(super) postgres: Option<&'a Postgres>,
    /// Name and URL of the episode's Postgres database.
    database: Option<(String, String)>,
    pub(super) deployment: bool,
    ports: String,
    pub(super) receivers: Receivers,
    book: Arc<Mutex<Book>>,
    pub(super) client: Client,
    pub(super) server: Option<ServerProcess>,
}

impl<'a> FaultsHarness<'a> {
    pub(super) fn open(folder: PathBuf, plan: &Plan, postgres: Option<&'a Postgres>) -> Self {
        // Removes what an interrupted run left behind.
        let _ = Command::new("umount").arg(folder.join("data")).output();
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("data")).unwrap();
        let disk = if small_disks() { Disk::mount(&folder.join("data")) } else { None };
        let database = postgres.map(|postgres| {
            let name = format!("crash_{}", plan.seed);
            let url = postgres.fresh(&name);
            (name, url)
        });
        let clock = clock::library().filter(|_| plan.sets_the_clock()).map(|library| Clock::new(library, &folder));
        // Ports that other tests and concurrent runs do not use.
        let first = 24_000 + std::process::id() % 80 * 100;
        let origin = Arc::new(RwLock::new(String::new()));
        Self {
            folder,
            disk,
            clock,
            postgres,
            database,
            deployment: plan.deployment,
            ports: format!("{first}-{}", first + 99),
            receivers: Receivers::start(),
            book: Arc::default(),
            client: Client::new(origin, String::new()),
            server: None,
        }
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock()
    }

    pub(super) fn weather(&self) -> BTreeMap<String, usize> {
        self.client.weather.seen()
    }

    pub(super) fn traffic(&self) -> TrafficHarness {
        TrafficHarness {
            client: self.client.clone(),
            book: Arc::clone(&self.book),
            receiver: self.receivers.url("further"),
            deployment: self.deployment,
        }
    }

    /// Returns a command that uses this episode's data.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = program().on(&self.data(), args);
        if let Some((_, url)) = &self.database {
            command.args(["--metadata-url", url]);
        }
        // The small disks hold less than what a server keeps free by default.
        command.env("BRANCHYARD_LIMITS__MIN_FREE_BYTES", "0");
        command.env("BRANCHYARD_HOSTED__PORT_RANGE", &self.ports);
        // Declares more disk capacity than the small disk has, because a volume's size is not allocated.
        command.env(
            "BRANCHYARD_HOSTED__CATALOGUE__CLOUDS",
            r#"[{id="local",provisioner="local_process",zones=["local"],capacity={deployments=4,memory_gb=64,disk_gb=64}}]"#,
        );
        command.env("BRANCHYARD_HOOKS__ALLOWED_CIDRS", "127.0.0.0/8").env("BRANCHYARD_HOOKS__TIMEOUT_MS", "500");
        command.env("BRANCHYARD_HOOKS__RETRY_DELAYS_MS", "[0,50,50,100,100,200,200,400,400,800,800,1000]");
        if let Some(clock) = &self.clock {
            clock.rule(&mut command);
            // An upload session must survive skipping an hour.
            command.env("BRANCHYARD_IMPORTS__SESSION_TTL", "24h").env("BRANCHYARD_IMPORTS__URL_TTL", "24h");
        }
        command
    }

    /// Returns the command that starts the server. SIGXFSZ is ignored, so that a write beyond `RLIMIT_FSIZE` fails with an error,
    /// as on a full disk.
    pub(super) fn serve(&self) -> Command {
        let serve = self.command(&["serve", "--listen", "127.0.0.1:0"]);
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(serve.get_program()).args(serve.get_args());
        for (name, value) in serve.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let log = OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        command.stderr(log);
        command
    }

    /// Starts the server and waits until it is ready.
    pub(super) fn start(&mut self) {
        let server = ServerProcess::try_start(&mut self.serve()).unwrap_or_else(|error| panic!("no server: {error}"));
        self.client.origin.write().clone_from(&server.origin);
        self.server = Some(server);
        self.wait_until_ready();
    }

    pub(super) fn wait_until_ready(&self) {
        let ask = Ask { method: "GET", path: "/readyz", body: None, key: None, token: None, waits: false };
        wait_until("readiness after the end of the fault", AMPLE, || {
            self.client.once(&ask).is_some_and(|(reply, _)| reply.status == 200)
        });
    }

    /// Creates the user `ada`, her database with a table, hooks, and, if planned, a deployment.
    pub(super) fn prepare(&mut self) {
        self.start();
        self.client.token = create_user(|args| self.command(args), "ada");
        let post = |path: &str, body: &Value| {
            let made = self.client.post(path, path, body);
            assert!(made.status < 300, "{path}: {}", made.body);
            made
        };
        post("/databases", &json!({"owner": "ada", "name": "d", "visibility": "public"}));
        let create = json!({"from_branch": "main", "to_branch": "main", "q": "create table marks (mark text)"});
        let id = post("/databases/ada/d/sql-writes", &create).text("id");
        assert_eq!(settled(&self.client, id.rsplit('/').next().unwrap())["status"], "succeeded");
        let mut book = self.book.lock();
        book.databases.insert("ada/d".to_owned());
        book.branches.insert("main".to_owned());
        for manner in MANNERS {
            let events = if ALL_EVENTS.contains(manner) {
                json!(["on_push", "on_branch", "on_pull_request"])
            } else {
                json!(["on_pull_request"])
            };
            let hook = json!({"url": self.receivers.url(manner), "events": events});
            let made = self.client.post("/databases/ada/d/hooks", manner, &hook);
            book.hooks.insert(made.text("id"));
        }
        drop(book);
        if self.deployment {
            let size = json!({
                "owner": "ada", "name": "gauges", "cloud": "local", "zone": "local", "instance_type_id": "local.small",
                "volume_type_id": "local.standard", "volume_size_gb": 2,
            });
            let reply = self.hosted("POST", "/deployments", Some(&size));
            assert_eq!(reply["data"]["state"], "starting", "{reply}");
            self.deployed("create table t (mark text)");
        }
    }

    fn hosted(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let path = format!("/api/v1{path}");
        let ask = Ask {
            method,
            path: &path,
            body: body.map(Body::Json),
            key: None,
            token: Some(&self.client.token),
            waits: false,
        };
        self.client.send(&ask).body
    }

    /// Runs a statement on the deployment as soon as it is available, and returns the rows as text.
    pub(super) fn deployed(&self, sql: &str) -> Vec<Vec<String>> {
        let body = json!({"requests": [{"type": "execute", "stmt": {"sql": sql}}, {"type": "close"}]});
        wait_for("the deployment", AMPLE, || {
            let seen = self.hosted("GET", "/deployments/ada/gauges", None);
            if seen["data"]["state"] == "started" {
                let answer = self.hosted("POST", "/deployments/ada/gauges/sql/v2/pipeline", Some(&body));
                if answer["results"][0]["type"] == "ok" {
                    let rows = answer["results"][0]["response"]["result"]["rows"].as_array().unwrap();
                    let cell = |cell: &Value| cell["value"].as_str().unwrap_or_default().to_owned();
                    return Ok(rows.iter().map(|row| row.as_array().unwrap().iter().map(cell).collect()).collect());
                }
            }
            Err(seen)
        })
    }

    /// Waits until all accepted operations are settled and all events are delivered.
    pub(super) fn quiet(&self) {
        let accepted: Vec<(String, Effect)> = std::mem::take(&mut self.book().accepted);
        for (id, effect) in accepted {
            let operation = settled(&self.client, &id);
            self.book().settle(id, effect, operation["status"] == "succeeded");
        }
        // Also covers operations whose ids the clients never received.
        self.until_none("operations", "state IN ('queued', 'running')");
        self.until_none("events", "dispatched_at IS NULL");
        self.until_none("deliveries", "state = 'pending'");
        self.until_none("hooks", "lease_holder IS NOT NULL");
    }

    fn until_none(&self, table: &str, which: &str) {
        wait_for(&format!("no {table} where {which}"), QUIET, || match self.count(table, which) {
            0 => Ok(()),
            left => Err(format!("{left} are left")),
        });
    }

    /// Returns the number of matching rows, read directly from the metadata store.
    pub(super) fn count(&self, table: &str, which: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table} WHERE {which}");
        match (&self.database, self.postgres) {
            (Some((name, _)), Some(postgres)) => postgres.ask(name, &sql).parse().unwrap(),
            _ => {
                let file = self.data().join("metadata.sqlite");
                let store = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
                store.busy_timeout(Duration::from_secs(20)).unwrap();
                store.query_row(&sql, [], |row| row.get(0)).unwrap()
            }
        }
    }

    /// Returns the processes whose command line names this folder, with their ids and command lines.
    pub(super) fn processes(&self) -> Vec<(u32, String)> {
        let folder = self.data().display().to_string();
        let process = |entry: fs::DirEntry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(&folder).then_some((id, line))
        };
        fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter_map(process).collect()
    }

    /// Returns the size of the largest file in the data folder, in bytes.
    pub(super) fn largest(&self) -> u64 {
        fn walk(folder: &Path) -> u64 {
            let size = |entry: fs::DirEntry| match entry.metadata() {
                Ok(data) if data.is_dir() => walk(&entry.path()),
                Ok(data) => data.len(),
                Err(_) => 0,
            };
            fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(size).max().unwrap_or(0)
        }
        walk(&self.data())
    }

    /// Stops the server with SIGTERM.
    pub(super) fn end(&mut self) {
        if let Some(server) = self.server.take() {
            server.terminate();
        }
    }

    /// Removes all files of the episode. Called if there was no finding.
    pub(super) fn remove(mut self) {
        drop(self.disk.take());
        let folder = self.folder.clone();
        drop(self);
        fs::remove_dir_all(folder).unwrap();
    }
}

impl Drop for FaultsHarness<'_> {
    fn drop(&mut self) {
        drop(self.server.take());
        for (id, _) in self.processes() {
            let _ = Command::new("kill").args(["-KILL", &id.to_string()]).status();
        }
        // A disk in memory is lost with the mount, so its contents are copied for inspection.
        if std::thread::panicking()
            && let Some(disk) = self.disk.take()
        {
            let kept = self.folder.join("kept");
            let copied = Command::new("cp").arg("-a").arg(self.data()).arg(&kept).status();
            drop(disk);
            if copied.is_ok_and(|status| status.success()) {
                let _ = fs::remove_dir(self.data());
                let _ = fs::rename(&kept, self.data());
            }
            let _ = File::create(self.folder.join("book.txt")).and_then(|mut file| {
                let book = self.book.lock();
                std::io::Write::write_all(&mut file, format!("{book:#?}\n").as_bytes())
            });
        }
    }
}
