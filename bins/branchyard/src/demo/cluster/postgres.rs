//! A Postgres server for the demo, in a folder of its own.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use branchyard_domain::ports::Ids as _;
use branchyard_runtime::SystemIds;
use data_encoding::HEXLOWER;
use rustix::process::Signal;

use super::node_process::{signal, without_settings};

/// Folders below which distributions install a version each.
const INSTALLED: [&str; 2] = ["/usr/lib/postgresql", "/usr/local/pgsql"];
const NOT_INSTALLED: &str = "the demo of a cluster needs Postgres, and neither PATH nor /usr/lib/postgresql has its `initdb`: install it (on \
     Debian and Ubuntu the package postgresql, on Fedora postgresql-server, with Homebrew postgresql), or name a Postgres with \
     --metadata-url";
const ROOT: &str = "Postgres does not run as root, so the demo cannot start one: run it as another user, or name a Postgres with \
     --metadata-url";
/// How long the server may take to accept connections, and to end.
const WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Enough for nine nodes.
const CONNECTIONS: &str = "max_connections=300";
/// Line of the server's `postmaster.pid` that says whether it accepts connections.
const STATUS_LINE: usize = 7;

/// The server, as a process.
pub(super) struct DemoPostgres {
    child: Child,
    data: PathBuf,
    log: PathBuf,
    port: u16,
    password: String,
}

impl DemoPostgres {
    /// Starts the server of a folder, which is created if it is missing.
    ///
    /// # Errors
    /// Fails if Postgres is not installed, if this process is that of root, or if the server cannot be started.
    pub(super) fn start(dir: &Path) -> anyhow::Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let programs = find_programs(&path, &INSTALLED.map(Path::new)).context(NOT_INSTALLED)?;
        if rustix::process::geteuid().is_root() {
            bail!(ROOT);
        }
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let (data, log, password_file) = (dir.join("data"), dir.join("log"), dir.join("password"));
        if !data.exists() {
            initialize(&programs, &data, &password_file)?;
        }
        let password = fs::read_to_string(&password_file);
        let password = password.with_context(|| format!("cannot read {}", password_file.display()))?;
        let port = free_port().context("there is no free port for Postgres")?;
        let output = File::options().create(true).append(true).open(&log);
        let output = output.with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(programs.join("postgres"));
        without_settings(&mut command).arg("-D").arg(&data).args(["-p", &port.to_string(), "-c", CONNECTIONS]);
        command.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
        command.process_group(0).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = command.spawn().context("cannot start Postgres")?;
        Ok(Self { child, data, log, port, password })
    }

    /// Waits until the server accepts connections, or until `is_stopped` returns `true`.
    ///
    /// # Errors
    /// Fails if the server ends instead, or takes too long.
    pub(super) fn wait_until_ready(&mut self, is_stopped: &dyn Fn() -> bool) -> anyhow::Result<()> {
        let until = Instant::now() + WITHIN;
        while !self.is_ready() && !is_stopped() {
            self.require_running()?;
            if Instant::now() > until {
                bail!("Postgres does not accept connections; the reason is in {}", self.log.display());
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Returns `true` if this server, and not an earlier one in its folder, says that it accepts connections.
    fn is_ready(&self) -> bool {
        let status = fs::read_to_string(self.data.join("postmaster.pid")).unwrap_or_default();
        let lines: Vec<&str> = status.lines().map(str::trim).collect();
        lines.first() == Some(&self.child.id().to_string().as_str()) && lines.get(STATUS_LINE) == Some(&"ready")
    }

    /// Checks that the server has not ended.
    ///
    /// # Errors
    /// Fails if it has.
    pub(super) fn require_running(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait().context("cannot look after Postgres")? {
            None => Ok(()),
            Some(status) => bail!("Postgres has ended ({status}); the reason is in {}", self.log.display()),
        }
    }

    /// Returns the URL of its database.
    pub(super) fn url(&self) -> String {
        format!("postgres://branchyard:{}@127.0.0.1:{}/postgres", self.password, self.port)
    }

    /// Ends the server, which disconnects its clients.
    pub(super) fn end(mut self) {
        // A fast shutdown.
        signal(&self.child, Signal::INT);
        let until = Instant::now() + WITHIN;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > until {
                // An immediate shutdown: the next start recovers.
                signal(&self.child, Signal::QUIT);
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// Creates the files of a server, and its password.
fn initialize(programs: &Path, data: &Path, password_file: &Path) -> anyhow::Result<()> {
    let mut random = [0; 16];
    SystemIds.fill(&mut random);
    fs::write(password_file, HEXLOWER.encode(&random)).context("cannot write the password of Postgres")?;
    // If that is interrupted, the next start begins anew.
    let unfinished = data.with_extension("new");
    match fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let mut command = Command::new(programs.join("initdb"));
    command.arg("-D").arg(&unfinished).arg("--pwfile").arg(password_file).stdin(Stdio::null());
    command.args(["--username=branchyard", "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale"]);
    let output = command.output().context("cannot run initdb")?;
    if !output.status.success() {
        bail!("initdb failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(fs::rename(&unfinished, data)?)
}

/// Returns the folder with the programs of Postgres: one of PATH, or that of the newest installed version.
fn find_programs(path: &OsStr, installed: &[&Path]) -> Option<PathBuf> {
    let has_both = |folder: &PathBuf| ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file());
    std::env::split_paths(path).find(has_both).or_else(|| {
        let versions = installed.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().filter_map(Result::ok);
        let numbered = versions.map(|entry| entry.path()).filter_map(|version| {
            let number: u32 = version.file_name()?.to_str()?.parse().ok()?;
            Some((number, version.join("bin"))).filter(|(_, programs)| has_both(programs))
        });
        numbered.max().map(|(_, programs)| programs)
    })
}

/// Returns a port that was free just now.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_those_of_the_path_or_the_newest_ones() {
        let dir = tempfile::tempdir().unwrap();
        let install = |folder: &str, names: &[&str]| {
            let folder = dir.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            for name in names {
                fs::write(folder.join(name), "").unwrap();
            }
            folder
        };
        let installed = dir.path().join("lib");
        let found = |path: &[&PathBuf]| find_programs(&std::env::join_paths(path).unwrap(), &[&installed]);
        let half = install("half", &["initdb"]);
        assert_eq!(found(&[&half]), None);
        install("lib/9/bin", &["initdb", "postgres"]);
        let newest = install("lib/15/bin", &["initdb", "postgres"]);
        install("lib/16/bin", &["postgres"]);
        assert_eq!(found(&[&half]), Some(newest));
        let whole = install("whole", &["initdb", "postgres"]);
        assert_eq!(found(&[&half, &whole]), Some(whole));
    }
}
