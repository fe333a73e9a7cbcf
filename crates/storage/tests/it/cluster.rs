//! A Postgres server for one test, which only accepts TLS, and can be stopped.

use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

const PASSWORD: &str = "tls'te\\st";
/// The same in a URL.
const ENCODED: &str = "tls%27te%5Cst";

/// How the server ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stop {
    /// Ends its connections first.
    Fast,
    /// As in a crash.
    Immediate,
}

pub(crate) struct Cluster {
    bin: PathBuf,
    /// Short, because it contains the socket.
    home: tempfile::TempDir,
    pub(crate) port: u16,
    /// User and group that run the server, if the test runs as root.
    as_other: Option<(u32, u32)>,
}

impl Cluster {
    /// Starts a server whose certificate is for `localhost` and was issued by [`Cluster::roots`]. Returns `None` if Postgres is not
    /// installed.
    pub(crate) fn start() -> Option<Self> {
        let Some(bin) = installed() else {
            let required = std::env::var("BRANCHYARD_TEST_REQUIRE_POSTGRES").is_ok_and(|value| value == "1");
            assert!(!required, "there is no Postgres server to start (initdb), and BRANCHYARD_TEST_REQUIRE_POSTGRES=1");
            eprintln!("skipped: there is no Postgres server to start (initdb)");
            return None;
        };
        let home = tempfile::Builder::new().prefix("branchyard-tls-pg.").tempdir_in("/tmp").unwrap();
        let mut cluster = Self { bin, home, port: 0, as_other: other_user() };
        let folder = cluster.home.path().to_owned();
        let path = |name: &str| folder.join(name);
        cluster.write("password", PASSWORD);
        cluster.own(cluster.home.path());
        let mut initdb = cluster.command("initdb");
        initdb.arg("-D").arg(path("data")).args(["--username=branchyard", "--auth=scram-sha-256"]);
        initdb.args(["--encoding=UTF8", "--locale=C", "--no-sync"]);
        run(initdb.arg(format!("--pwfile={}", path("password").display())));
        cluster.certify();
        let mut settings = std::fs::OpenOptions::new().append(true).open(path("data/postgresql.conf")).unwrap();
        let folder = folder.display();
        writeln!(
            settings,
            "listen_addresses = '127.0.0.1'\nunix_socket_directories = '{folder}'\nmax_connections = 60\nfsync = off\n\
             ssl = on\nssl_cert_file = '{folder}/server.crt'\nssl_key_file = '{folder}/server.key'"
        )
        .unwrap();
        drop(settings);
        std::fs::write(path("data/pg_hba.conf"), "hostssl all all 127.0.0.1/32 scram-sha-256\n").unwrap();
        // Below the ports that the system hands out. The start fails if a port is taken.
        for _ in 0..5 {
            cluster.port = 20_000 + u16::try_from(RandomState::new().hash_one(()) % 10_000).unwrap();
            if cluster.try_begin() {
                return Some(cluster);
            }
        }
        panic!("Postgres does not start: {}", cluster.log());
    }

    fn certify(&self) {
        let authority = |name: &str| {
            let mut params = CertificateParams::new([name.to_owned()]).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
        };
        let issuer = authority("issuer.test");
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        self.write("server.crt", &params.signed_by(&key, &issuer).unwrap().pem());
        self.write("server.key", &key.serialize_pem());
        self.write("roots.pem", &issuer.pem());
        self.write("other-roots.pem", &authority("other.test").pem());
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        self.own(&path);
    }

    fn own(&self, path: &Path) {
        if let Some((user, group)) = self.as_other {
            chown(path, Some(user), Some(group)).unwrap();
        }
    }

    /// PEM file of the authority that issued the server's certificate.
    pub(crate) fn roots(&self) -> String {
        self.home.path().join("roots.pem").display().to_string()
    }

    /// PEM file of another authority.
    pub(crate) fn other_roots(&self) -> String {
        self.home.path().join("other-roots.pem").display().to_string()
    }

    pub(crate) fn url(&self, host: &str, database: &str, parameters: &str) -> String {
        format!("postgres://branchyard:{ENCODED}@{host}:{}/{database}?{parameters}", self.port)
    }

    /// Starts the server after a stop.
    pub(crate) fn begin(&self) {
        assert!(self.try_begin(), "Postgres does not start: {}", self.log());
    }

    fn try_begin(&self) -> bool {
        let mut start = self.command("pg_ctl");
        start.arg("-D").arg(self.home.path().join("data")).arg("-l").arg(self.home.path().join("log"));
        start.arg("-o").arg(format!("-c port={}", self.port)).args(["-w", "-t", "60", "start"]);
        // The server inherits the standard streams; a pipe would stay open as long as the server runs.
        start.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn stop(&self, how: Stop) {
        let mode = match how {
            Stop::Fast => "fast",
            Stop::Immediate => "immediate",
        };
        run(self.command("pg_ctl").arg("-D").arg(self.home.path().join("data")).args(["-m", mode, "-w", "stop"]));
    }

    /// Returns the result of a query as text.
    pub(crate) fn ask(&self, database: &str, sql: &str) -> String {
        let mut psql = self.command("psql");
        psql.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "branchyard", "-d", database, "-Atc", sql]);
        psql.env("PGSSLMODE", "require").env("PGPASSWORD", PASSWORD);
        String::from_utf8(run(&mut psql).stdout).unwrap().trim().to_owned()
    }

    fn command(&self, name: &str) -> Command {
        let program = self.bin.join(name);
        let mut command = match self.as_other {
            None => Command::new(program),
            Some((user, group)) => {
                let mut command = Command::new("setpriv");
                command.args([&format!("--reuid={user}"), &format!("--regid={group}"), "--clear-groups"]).arg(program);
                command
            }
        };
        command.current_dir(self.home.path()).env("HOME", self.home.path()).stdin(Stdio::null());
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut stop = self.command("pg_ctl");
        let _ = stop.arg("-D").arg(self.home.path().join("data")).args(["-m", "immediate", "-w", "stop"]).output();
    }
}

/// Returns the folder of the newest installed server, as `.ci/run` finds it.
fn installed() -> Option<PathBuf> {
    let entries = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok);
    let mut numbered: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    numbered.sort_unstable();
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let folders = numbered.into_iter().rev().map(|(_, folder)| folder).chain(std::env::split_paths(&on_path));
    folders.into_iter().find(|folder| ["initdb", "pg_ctl", "psql"].iter().all(|name| folder.join(name).exists()))
}

/// Returns the user that runs Postgres, which refuses to run as root.
fn other_user() -> Option<(u32, u32)> {
    let id = |flag: &str, user: &[&str]| -> Option<u32> {
        let output = Command::new("id").arg(flag).args(user).output().unwrap();
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    if id("-u", &[]) != Some(0) {
        return None;
    }
    let user = if id("-u", &["postgres"]).is_some() { "postgres" } else { "nobody" };
    Some((id("-u", &[user]).unwrap(), id("-g", &[user]).unwrap()))
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}
