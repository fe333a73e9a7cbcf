//! The real binary as a child process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::AMPLE;

/// A `branchyard` binary.
#[derive(Debug, Clone)]
pub struct Program(PathBuf);

impl Program {
    /// Returns the binary at `path`. Integration tests of the package `branchyard` pass `env!("CARGO_BIN_EXE_branchyard")`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Returns a command without the `BRANCHYARD_*` variables of the environment, and with rate limits off, because tests send requests
    /// faster than the default limit allows.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.0);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"BRANCHYARD_")) {
            command.env_remove(name);
        }
        command.env("BRANCHYARD_RATE_LIMIT__ENABLED", "false");
        command
    }

    /// Returns a command on a data folder.
    pub fn on(&self, dir: &Path, args: &[&str]) -> Command {
        let mut command = self.command();
        command.args(args).arg("--data-dir").arg(dir);
        command
    }

    /// Runs a command on a data folder to completion.
    pub fn run(&self, dir: &Path, args: &[&str]) -> Output {
        self.on(dir, args).output().unwrap()
    }

    /// Runs a command on a data folder, checks that it succeeds, and returns its trimmed standard output.
    pub fn succeed(&self, dir: &Path, args: &[&str]) -> String {
        succeed(&mut self.on(dir, args))
    }

    /// Returns the command that serves a data folder on a free port of the loopback interface.
    pub fn serve(&self, dir: &Path) -> Command {
        self.on(dir, &["serve", "--listen", "127.0.0.1:0"])
    }

    /// Serves a data folder on a free port of the loopback interface.
    pub fn start(&self, dir: &Path) -> ServerProcess {
        ServerProcess::start(&mut self.serve(dir))
    }

    /// Creates a user in a data folder, and returns a token of the user.
    pub fn user(&self, dir: &Path, name: &str) -> String {
        create_user(|args| self.on(dir, args), name)
    }
}

/// Creates a user and returns a token of the user. `command` adds the place of the data to the given arguments.
pub fn create_user(command: impl Fn(&[&str]) -> Command, name: &str) -> String {
    succeed(&mut command(&["user", "create", name, "--email", &format!("{name}@example.test")]));
    succeed(&mut command(&["token", "create", "--user", name, "--name", "t", "--expires", "30d"]))
}

/// Runs a command, checks that it succeeds, and returns its trimmed standard output.
#[track_caller]
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Runs a command with `input` as standard input.
pub fn run_with_input(command: &mut Command, input: &str) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Waits until a child process ends by itself. Returns `None` if it does not within `limit`.
pub fn ended_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let began = Instant::now();
    loop {
        match child.try_wait().unwrap() {
            None if began.elapsed() < limit => std::thread::sleep(Duration::from_millis(10)),
            ended => return ended,
        }
    }
}

/// Returns the address and port of an origin.
pub(crate) fn socket(origin: &str) -> SocketAddr {
    origin.split_once("://").unwrap().1.parse().unwrap()
}

/// A running server process. Killed when dropped.
pub struct ServerProcess {
    child: Child,
    /// The server's origin.
    pub origin: String,
    /// Standard output before the line with the address.
    pub greeting: String,
}

impl ServerProcess {
    /// Starts a command that eventually serves. Panics if the command ends instead.
    pub fn start(command: &mut Command) -> Self {
        Self::try_start(command.stderr(Stdio::null()))
            .unwrap_or_else(|error| panic!("the server did not listen: {error}"))
    }

    /// Starts a command that eventually serves. If it ends instead, or prints nothing for five minutes, returns a description
    /// with its output as the error.
    pub fn try_start(command: &mut Command) -> Result<Self, String> {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Takes ownership first, so that dropping the server kills and reaps the process on every path below.
        let mut server = Self { child, origin: String::new(), greeting: String::new() };
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        loop {
            match receiver.recv_timeout(AMPLE) {
                Ok(line) => match line.trim().strip_prefix("listening on ") {
                    Some(origin) => {
                        origin.clone_into(&mut server.origin);
                        return Ok(server);
                    }
                    None => server.greeting += &(line + "\n"),
                },
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    return Err(format!("silent for {AMPLE:?}: {}", server.greeting));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let status = server.child.wait().unwrap();
                    return Err(format!("{status}: {}", server.greeting));
                }
            }
        }
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the address that the server listens on.
    pub fn socket(&self) -> SocketAddr {
        socket(&self.origin)
    }

    /// Sends SIGKILL and waits for the process.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM without waiting.
    pub fn signal(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    }

    /// Returns the exit status if the process ends within `limit`.
    pub fn ended_within(&mut self, limit: Duration) -> Option<ExitStatus> {
        ended_within(&mut self.child, limit)
    }

    /// Sends SIGTERM and checks that the process exits successfully.
    pub fn terminate(mut self) {
        self.signal();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
