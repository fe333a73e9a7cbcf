//! Programs that the server is compared with.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take until it listens.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process, which is killed when dropped.
pub(crate) struct RunningProgram {
    child: Child,
}

impl RunningProgram {
    /// Starts a command, and waits until it listens.
    pub(crate) fn start(command: &mut Command, address: SocketAddr) -> Result<Self, String> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut process = Self { child: child.map_err(|error| format!("{command:?} does not start: {error}"))? };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Ok(Some(status)) = process.child.try_wait() {
                return Err(format!("{command:?} ended: {status}"));
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("{command:?} does not listen after {} s", PATIENCE.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(process)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a free address.
pub(crate) fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Runs a command to its end, and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let ended = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if !ended.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&ended.stderr)));
    }
    Ok(String::from_utf8_lossy(&ended.stdout).trim().to_owned())
}

/// Returns the version that a program prints, without words.
pub(crate) fn version(program: &Path, argument: &str) -> String {
    let printed = output(Command::new(program).arg(argument)).unwrap_or_default();
    let is_version = |word: &&str| word.trim_start_matches('v').starts_with(|first: char| first.is_ascii_digit());
    printed.split_whitespace().find(is_version).unwrap_or("of an unknown version").to_owned()
}
