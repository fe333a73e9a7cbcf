//! The server's side of a process that stages files.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_confinement::KernelSupport;
use branchyard_deployments::ports::ProvisionError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::messages::{Answer, MOST_ANSWER, Request};
use super::{Heads, StagingEngine, StagingTask};
use crate::local::unavailable;

/// Time limit of a process. The checks of the engine have shorter limits of their own.
pub(super) const PATIENCE: Duration = Duration::from_secs(3600);
/// Time that a process has to end after its answer.
const ENDING: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(2);

/// The error on a system that cannot confine processes.
const UNCONFINED: &str =
    "this system cannot confine the process that opens database files, and hosted.allow_unconfined is false";

/// Creates databases in processes of `program`, one for each.
#[derive(Debug)]
pub struct ProcessStaging {
    program: PathBuf,
    allow_unconfined: bool,
    support: KernelSupport,
    patience: Duration,
}

impl ProcessStaging {
    /// Creates the staging engine. `program` is the program of the server. With `allow_unconfined`, its processes also run on a
    /// system that cannot confine them.
    #[must_use]
    pub fn new(program: PathBuf, allow_unconfined: bool) -> Self {
        Self { program, allow_unconfined, support: branchyard_confinement::kernel_support(), patience: PATIENCE }
    }

    /// Sets the time limit of a process, for tests.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Sets what the kernel offers, for tests.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn with_support(self, support: KernelSupport) -> Self {
        Self { support, ..self }
    }

    fn ask(&self, task: &StagingTask<'_>) -> io::Result<Answer> {
        let deadline = Instant::now() + self.patience;
        let mut process = StagingProcess::start(self, task)?;
        let mut request = Vec::new();
        crate::hrana::values::append(&mut request, &Request::new(task, self.allow_unconfined));
        if let Some(mut input) = process.0.stdin.take() {
            match input.write_all(&request) {
                // Its end is reported below.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                written => written?,
            }
        }
        let answer = process.read_answer(deadline)?;
        let ended = process.wait_until(deadline.min(Instant::now() + ENDING))?;
        if !ended.success() {
            return Err(io::Error::other(format!("the process ended with {ended}")));
        }
        Ok(serde_json::from_slice(&answer)?)
    }
}

impl StagingEngine for ProcessStaging {
    fn create(&self, task: &StagingTask<'_>) -> Result<Heads, ProvisionError> {
        if !self.support.is_complete() && !self.allow_unconfined {
            return Err(unavailable(UNCONFINED, format!("the kernel offers {:?}", self.support)));
        }
        let answer =
            self.ask(task).map_err(|error| unavailable("open a database file in a process of its own", error))?;
        answer.into_result()
    }
}

/// A process. It is killed when dropped.
struct StagingProcess(Child);

impl StagingProcess {
    fn start(staging: &ProcessStaging, task: &StagingTask<'_>) -> io::Result<Self> {
        let mut command = Command::new(&staging.program);
        command.arg("stage-files").arg("--folder").arg(task.folder);
        if let Some(file) = task.content.file() {
            command.arg("--source").arg(file);
        }
        command
            .env_clear()
            .current_dir(task.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // In a process group of its own, so that signals from the server's terminal do not reach it.
            .process_group(0)
            .spawn()
            .map(Self)
    }

    /// Reads until the process closes its output.
    fn read_answer(&mut self, deadline: Instant) -> io::Result<Vec<u8>> {
        let mut answer = Vec::new();
        let Some(mut output) = self.0.stdout.take() else { return Ok(answer) };
        let mut buffer = vec![0; 64 << 10];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(too_slow());
            }
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&left)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                polled => polled?,
            };
            let read = output.read(&mut buffer)?;
            if read == 0 {
                return Ok(answer);
            }
            answer.extend_from_slice(&buffer[..read]);
            if answer.len() > MOST_ANSWER {
                return Err(io::Error::other(format!("its answer has more than {MOST_ANSWER} bytes")));
            }
        }
    }

    fn wait_until(&mut self, deadline: Instant) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                return Err(too_slow());
            }
            thread::sleep(LOOK);
        }
    }
}

impl Drop for StagingProcess {
    fn drop(&mut self) {
        // It usually has ended. Its files are removed only after its end.
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait()) {
            tracing::error!(pid = self.0.id(), %error, "cannot end a process that stages files");
        }
    }
}

fn too_slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the process did not end in time")
}
