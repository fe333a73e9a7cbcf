//! A command that wraps and unwraps keys, for example by asking a key service.

use std::fmt;
use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::zeroize::Zeroizing;

/// How long the command may run.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes that it may write. A key that a key service wrapped has a few hundred.
const OUTPUT_MAX: usize = 16 << 10;
/// Most bytes of its errors that are shown.
const ERRORS_MAX: usize = 300;
/// How often it is looked whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A program with its arguments. It is run with `wrap` or `unwrap` as a further one, reads a key from its standard input, and writes the
/// other form to its standard output.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyCommand {
    program: String,
    arguments: Vec<String>,
    timeout: Duration,
}

impl fmt::Debug for KeyCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments may be secrets.
        write!(f, "KeyCommand({})", self.program)
    }
}

/// What the command is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Wrap,
    Unwrap,
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Self::Wrap => "wrap",
            Self::Unwrap => "unwrap",
        }
    }
}

impl KeyCommand {
    /// Creates a command. Returns `None` if the list is empty or begins with an empty text.
    pub fn new(argv: &[String]) -> Option<Self> {
        let (program, arguments) = argv.split_first().filter(|(program, _)| !program.is_empty())?;
        Some(Self { program: program.clone(), arguments: arguments.to_vec(), timeout: TIMEOUT })
    }

    /// Runs the command, and returns what it wrote.
    ///
    /// # Errors
    /// A text for the operator, if the command cannot be run, fails, takes more than ten seconds, or writes nothing or too much.
    pub(crate) fn run(&self, action: Action, input: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
        let failed = |what: String| format!("`{} … {}` {what}", self.program, action.word());
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg(action.word());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that what it started ends with it.
        command.process_group(0);
        let started = command.spawn().map_err(|error| failed(format!("cannot be run: {error}")))?;
        let mut running = Running::new(started, self.timeout);
        let output = running.child.stdout.take().map(|pipe| read_up_to(pipe, OUTPUT_MAX + 1));
        let errors = running.child.stderr.take().map(|pipe| read_up_to(pipe, ERRORS_MAX));
        if let Some(mut pipe) = running.child.stdin.take() {
            // A key is shorter than what a pipe holds, so this never waits. A command that fails early may not read it.
            let _ = pipe.write_all(input);
        }
        let status = running.wait().map_err(&failed)?;
        if !status.success() {
            let errors = errors.and_then(|errors| running.receive(&errors)).unwrap_or_default();
            let errors = String::from_utf8_lossy(&errors).trim().replace(char::is_control, " ");
            return Err(failed(format!("failed with {status}: {errors}")));
        }
        let output = output.and_then(|output| running.receive(&output));
        let output = output.ok_or_else(|| failed("ended, and something that it started did not".to_owned()))?;
        match output.len() {
            0 => Err(failed("wrote nothing to its standard output".to_owned())),
            length if length > OUTPUT_MAX => Err(failed(format!("wrote more than {OUTPUT_MAX} bytes"))),
            _ => Ok(output),
        }
    }
}

/// A command that runs. Dropping it ends the command and all that it started.
struct Running {
    child: Child,
    deadline: Instant,
    timeout: Duration,
}

impl Running {
    fn new(child: Child, timeout: Duration) -> Self {
        Self { child, deadline: Instant::now() + timeout, timeout }
    }

    fn wait(&mut self) -> Result<ExitStatus, String> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if Instant::now() < self.deadline => thread::sleep(LOOK_EVERY),
                Ok(None) => return Err(format!("did not end within {} seconds", self.timeout.as_secs_f32())),
                Err(error) => return Err(format!("cannot be waited for: {error}")),
            }
        }
    }

    /// Returns what was read, or `None` if the pipe is still open at the end of the time.
    fn receive(&self, pipe: &Receiver<Zeroizing<Vec<u8>>>) -> Option<Zeroizing<Vec<u8>>> {
        pipe.recv_timeout(self.deadline.saturating_duration_since(Instant::now())).ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Also if the command itself has ended: what it started may have the pipes open.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Reads a pipe to its end on a thread, and keeps its first bytes.
fn read_up_to(mut pipe: impl Read + Send + 'static, most: usize) -> Receiver<Zeroizing<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // With room for all from the start: a vector that grows leaves copies of a key behind.
        let mut kept = Zeroizing::new(Vec::with_capacity(most));
        let limit = u64::try_from(most).unwrap_or(u64::MAX);
        if pipe.by_ref().take(limit).read_to_end(&mut kept).is_ok() && io::copy(&mut pipe, &mut io::sink()).is_ok() {
            // The receiver is gone if the command took too long.
            let _ = sender.send(kept);
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> KeyCommand {
        let argv = ["sh", "-c", script, "sh"].map(str::to_owned);
        KeyCommand { timeout: Duration::from_secs(5), ..KeyCommand::new(&argv).unwrap() }
    }

    fn run(script: &str) -> Result<Vec<u8>, String> {
        shell(script).run(Action::Unwrap, b"a key").map(|output| output.to_vec())
    }

    #[test]
    fn a_command_turns_its_input_into_its_output() {
        assert_eq!(run("printf '%s ' \"$1\"; cat").unwrap(), b"unwrap a key");
        assert_eq!(shell("printf %s \"$1\"").run(Action::Wrap, b"a key").unwrap().as_slice(), b"wrap");
        assert_eq!(run("printf %s 'early'").unwrap(), b"early", "it need not read its input");
        assert!(KeyCommand::new(&[]).is_none() && KeyCommand::new(&[String::new()]).is_none());
    }

    #[test]
    fn a_command_that_fails_says_why() {
        let error = run("echo 'no such key' >&2; exit 3").unwrap_err();
        assert!(error.contains("`sh … unwrap` failed with exit status: 3: no such key"), "{error}");
        assert!(run("true").unwrap_err().contains("wrote nothing"));
        assert!(run("head -c 100000 /dev/zero").unwrap_err().contains("wrote more than 16384 bytes"));
        let absent = KeyCommand::new(&["/nowhere/kms".to_owned()]).unwrap();
        assert!(absent.run(Action::Wrap, b"").unwrap_err().contains("cannot be run"));
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let (late, begun) = (folder.path().join("late"), Instant::now());
        for script in ["sleep 3; touch LATE", "(sleep 3; touch LATE) & sleep 30", "(sleep 3; touch LATE) & echo key"] {
            let script = script.replace("LATE", &late.display().to_string());
            let command = KeyCommand { timeout: Duration::from_millis(200), ..shell(&script) };
            let error = command.run(Action::Unwrap, b"a key").unwrap_err();
            assert!(error.contains("did not end within") || error.contains("it started did not"), "{error}");
        }
        assert!(begun.elapsed() < Duration::from_secs(3));
        thread::sleep(Duration::from_secs(4));
        assert!(!late.exists());
    }
}
