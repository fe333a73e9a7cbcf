//! A Postgres server for the tests, which can be stopped and crashed. Creating it takes a moment, so a run has one server, with
//! one database per episode.
//!
//! The server of `.ci/run` is not used: other tests use it at the same time, and it may lose committed data in a crash.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const PASSWORD: &str = "crash-test";

/// Shutdown modes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stop {
    /// Disconnects clients and writes a checkpoint.
    Fast,
    /// Stops at once, as in a crash.
    Immediate,
}

/// A Postgres server. Stopped and removed when dropped.
pub(crate) struct Postgres {
    bin: PathBuf,
    /// Home folder. Its path is short because it contains the socket.
    home: tempfile::TempDir,
    port: u16,
    as_other: Option<&'static str>,
}

impl Postgres {
    /// Starts a server. Returns `None` if Postgres is not installed on this machine, which fails the test if it is required.
    pub(crate) fn start() -> Option<Self> {
        let started = Self::start_installed();
        let required = std::env::var_os("BRANCHYARD_TEST_REQUIRE_POSTGRES").is_some();
        assert!(started.is_some() || !required, "no Postgres server to make a cluster with");
        started
    }

    fn start_installed() -> Option<Self> {
        let bin = newest(Path::new("/usr/lib/postgresql"))?.join("bin");
        if !bin.join("initdb").exists() {
            return None;
        }
        let home = tempfile::Builder::new().prefix("branchyard-crash-pg.").tempdir_in("/tmp").unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        // Postgres refuses to run as root.
        let as_other = rustix::process::geteuid().is_root().then_some("postgres");
        let postgres = Self { bin, home, port, as_other };
        if let Some(other) = as_other {
            run(Command::new("chown").arg(other).arg(postgres.home.path()));
        }
        std::fs::write(postgres.home.path().join("password"), PASSWORD).unwrap();
        let data = postgres.data();
        let mut initdb = postgres.command("initdb");
        initdb.arg("-D").arg(&data).args([
            "--username=branchyard",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--no-sync",
        ]);
        run(initdb.arg(format!("--pwfile={}", postgres.home.path().join("password").display())));
        // Commits survive a crash of the processes without `fsync`. A crash of the machine is not simulated.
        let mut settings = std::fs::OpenOptions::new().append(true).open(data.join("postgresql.conf")).unwrap();
        writeln!(
            settings,
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{}'\nfsync = off\nmax_connections = 200",
            postgres.home.path().display()
        )
        .unwrap();
        postgres.begin();
        Some(postgres)
    }

    fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    fn command(&self, name: &str) -> Command {
        let mut command = match self.as_other {
            None => Command::new(self.bin.join(name)),
            Some(other) => {
                let mut command = Command::new("setpriv");
                command.args([&format!("--reuid={other}"), &format!("--regid={other}"), "--clear-groups"]);
                command.arg(self.bin.join(name));
                command
            }
        };
        command.current_dir(self.home.path()).env("PGPASSWORD", PASSWORD).stdin(Stdio::null());
        command
    }

    /// Starts the server, initially or after a stop.
    pub(crate) fn begin(&self) {
        let mut start = self.command("pg_ctl");
        start.arg("-D").arg(self.data()).arg("-l").arg(self.home.path().join("log")).args(["-w", "-t", "60", "start"]);
        // The server inherits the standard streams; a pipe would stay open as long as the server runs.
        assert!(
            start.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success(),
            "Postgres does not start"
        );
    }

    /// Stops the server.
    pub(crate) fn stop(&self, how: Stop) {
        let mode = match how {
            Stop::Fast => "fast",
            Stop::Immediate => "immediate",
        };
        run(self.command("pg_ctl").arg("-D").arg(self.data()).args(["-m", mode, "-w", "stop"]));
    }

    /// Terminates all other client connections.
    pub(super) fn cut(&self) {
        let ended = self.ask("postgres", "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'");
        assert!(ended.trim().parse::<u32>().is_ok(), "{ended}");
    }

    /// Creates an empty database and returns its URL.
    pub(crate) fn fresh(&self, name: &str) -> String {
        self.ask("postgres", &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
        self.ask("postgres", &format!("CREATE DATABASE {name}"));
        format!("postgres://branchyard:{PASSWORD}@127.0.0.1:{}/{name}", self.port)
    }

    /// Makes a database a copy of another one, in place of what it is. All connections to both are ended.
    pub(crate) fn copy(&self, from: &str, to: &str) {
        self.ask("postgres", &format!("DROP DATABASE IF EXISTS {to} WITH (FORCE)"));
        let end = format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{from}'");
        self.ask("postgres", &end);
        self.ask("postgres", &format!("CREATE DATABASE {to} TEMPLATE {from}"));
    }

    /// Returns the result of a query as text.
    pub(crate) fn ask(&self, database: &str, sql: &str) -> String {
        let mut psql = self.command("psql");
        psql.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "branchyard", "-d", database, "-Atc", sql]);
        String::from_utf8(run(&mut psql).stdout).unwrap().trim().to_owned()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let mut stop = self.command("pg_ctl");
        let _ = stop.arg("-D").arg(self.data()).args(["-m", "immediate", "-w", "stop"]).output();
    }
}

/// Returns the subfolder with the highest number as its name.
fn newest(folder: &Path) -> Option<PathBuf> {
    let numbered = |path: PathBuf| Some((path.file_name()?.to_str()?.parse::<u32>().ok()?, path));
    let entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    entries.filter_map(|entry| numbered(entry.path())).max().map(|(_, path)| path)
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}
