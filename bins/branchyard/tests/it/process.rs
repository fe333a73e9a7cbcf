//! The real binary as a child process.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Returns a command for the binary under test, without `BRANCHYARD_*` variables of the environment.
pub(crate) fn branchyard() -> Command {
    branchyard_at(env!("CARGO_BIN_EXE_branchyard").as_ref())
}

/// Returns a command for a binary of another build.
pub(crate) fn branchyard_at(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("BRANCHYARD_")) {
        command.env_remove(name);
    }
    // Tests send requests faster than the default rate limit allows.
    command.env("BRANCHYARD_RATE_LIMIT__ENABLED", "false");
    command
}

/// Runs a command to completion.
pub(crate) fn run(dir: &Path, args: &[&str]) -> Output {
    branchyard().args(args).arg("--data-dir").arg(dir).output().unwrap()
}

/// Runs a command, asserts that it succeeds, and returns its trimmed standard output.
pub(crate) fn succeed(dir: &Path, args: &[&str]) -> String {
    let output = run(dir, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A running server process. Killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) origin: String,
    /// Standard output before the line with the address.
    pub(crate) greeting: String,
}

impl Server {
    /// Starts `branchyard serve` on a free port.
    pub(crate) fn start(dir: &Path) -> Self {
        Self::start_as(branchyard().args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(dir))
    }

    /// Starts a command that eventually serves. Panics if the command ends instead.
    pub(crate) fn start_as(command: &mut Command) -> Self {
        Self::begin(command.stderr(Stdio::null())).unwrap_or_else(|said| panic!("the server did not listen: {said}"))
    }

    /// Starts a command that eventually serves. If it ends instead, or prints nothing for five minutes, returns a description
    /// with its output as the error.
    pub(crate) fn begin(command: &mut Command) -> Result<Self, String> {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Takes ownership first, so that dropping the server kills and reaps the process on every path below.
        let mut server = Self { child, origin: String::new(), greeting: String::new() };
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
        loop {
            match told.recv_timeout(Duration::from_secs(300)) {
                Ok(line) => match line.trim().strip_prefix("listening on ") {
                    Some(origin) => {
                        origin.clone_into(&mut server.origin);
                        return Ok(server);
                    }
                    None => server.greeting += &(line + "\n"),
                },
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    return Err(format!("silent for five minutes: {}", server.greeting));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let status = server.child.wait().unwrap();
                    return Err(format!("{status}: {}", server.greeting));
                }
            }
        }
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the number of open sockets of the process.
    #[cfg(target_os = "linux")]
    pub(crate) fn sockets(&self) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap();
        // The file may be closed before the link is read.
        let names = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        names.filter(|name| name.as_os_str().as_encoded_bytes().starts_with(b"socket:")).count()
    }

    /// Sends SIGKILL and waits for the process.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM without waiting.
    pub(crate) fn signal(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    }

    /// Returns the exit status if the process ends within `time`.
    pub(crate) fn ended_within(&mut self, time: Duration) -> Option<ExitStatus> {
        let began = Instant::now();
        loop {
            match self.child.try_wait().unwrap() {
                None if began.elapsed() < time => std::thread::sleep(Duration::from_millis(10)),
                ended => return ended,
            }
        }
    }

    /// Sends SIGTERM and asserts that the process exits successfully.
    pub(crate) fn terminate(mut self) {
        self.signal();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command with `input` as standard input.
pub(crate) fn with_input(dir: &Path, args: &[&str], input: &str) -> Output {
    let mut child = branchyard()
        .args(args)
        .arg("--data-dir")
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}
