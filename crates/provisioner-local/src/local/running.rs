//! A process that runs or ran: its events, its control channel and its end.

use std::collections::VecDeque;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use branchyard_deployments::ports::{InstanceEvent, InstanceHandle, ProvisionError};
use parking_lot::{Condvar, Mutex};

use super::event_log::EventLog;
use super::link::ProcessLink;
use super::process::{self, LOOK, ProcessHandle};
use super::unavailable;
use crate::child::log::mask;
use crate::control::ControlRequest;
use crate::control::server::{Channel, ChildNotice};
use crate::folder::{InstanceFolder, LOG};

/// Time limit for a process to become ready.
const READY: Duration = Duration::from_secs(30);
const PING_EVERY: Duration = Duration::from_secs(5);
/// Time in which a ping has to be answered. With three missed pings, a process that hangs is killed 14 to 19 s after it
/// began to hang.
const PING_PATIENCE: Duration = Duration::from_secs(4);
const MISSES: u32 = 3;
/// Maximum number of bytes of standard error that are reported.
const TOLD: usize = 2048;
/// Number of bytes of standard error that are read. More than is reported, so that a token that is cut at the beginning
/// is never reported.
const READ: u64 = 64 << 10;
/// Name of the file with standard error, in the folder `log`.
const STDERR: &str = "stderr";

#[derive(Default)]
struct ProcessState {
    events: VecDeque<InstanceEvent>,
    channel: Option<Arc<Channel>>,
    is_ready: bool,
    has_ended: bool,
    /// The end was returned as an event, or the process was stopped on request.
    is_over: bool,
    /// The process was released and is no longer watched.
    is_released: bool,
    /// The reason why the server killed the process.
    killed: Option<&'static str>,
}

/// A process that runs or ran.
pub(super) struct RunningProcess {
    pub(super) handle: InstanceHandle,
    pub(super) folder: InstanceFolder,
    pub(super) port: u16,
    /// Held while the settings in the spec are compared and replaced.
    pub(super) spec: Mutex<()>,
    hold: ProcessHandle,
    log: EventLog,
    state: Mutex<ProcessState>,
    changed: Condvar,
}

/// Starts the program on the folder of an instance.
pub(super) fn start(
    program: &Path,
    folder: &InstanceFolder,
    port: u16,
    link: ProcessLink,
) -> io::Result<Arc<RunningProcess>> {
    let stderr = folder.open()?.make(LOG)?.replace(STDERR)?;
    let mut child = Command::new(program)
        .arg("serve-deployment")
        .arg("--run-dir")
        .arg(folder.run())
        .env_clear()
        // The process enters the folder `run` itself.
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        // In a process group of its own, so that signals from the server's terminal do not reach it.
        .process_group(0)
        .spawn()?;
    let process = child.id();
    let hold = match ProcessHandle::of(process) {
        Ok(hold) => hold,
        Err(error) => {
            child.kill()?;
            child.wait()?;
            return Err(error);
        }
    };
    let handle = InstanceHandle { instance: link.instance, process, process_started: process::started(process) };
    let running = Arc::new(RunningProcess::new(handle, folder.clone(), port, hold, link.log.clone()));
    let on = Arc::clone(&running);
    thread::Builder::new().name("deployment-end".into()).spawn(move || {
        let (cause, is_signal) = match child.wait() {
            Ok(status) => (in_words(status), status.signal().is_some()),
            Err(error) => (format!("it cannot be waited for: {error}"), false),
        };
        on.end(cause, is_signal);
    })?;
    let on = Arc::clone(&running);
    thread::Builder::new().name("deployment-watch".into()).spawn(move || on.attend(&link, false))?;
    Ok(running)
}

/// Takes over a process that another run of the server started.
pub(super) fn adopt(
    folder: &InstanceFolder,
    handle: &InstanceHandle,
    port: u16,
    link: ProcessLink,
) -> Result<Arc<RunningProcess>, ProvisionError> {
    // The handle is opened first: from then on, the id cannot be reused unnoticed.
    let hold = ProcessHandle::of(handle.process).map_err(|_| ProvisionError::Gone)?;
    if process::started(handle.process) != handle.process_started {
        return Err(ProvisionError::Gone);
    }
    let running = Arc::new(RunningProcess::new(handle.clone(), folder.clone(), port, hold, link.log.clone()));
    if !running.connect(&link) {
        return Err(ProvisionError::Gone);
    }
    let threads = || -> io::Result<()> {
        let on = Arc::clone(&running);
        thread::Builder::new().name("deployment-end".into()).spawn(move || {
            let cause = match on.hold.wait() {
                Ok(()) => "ended while another server's child".to_owned(),
                Err(error) => format!("it cannot be waited for: {error}"),
            };
            on.end(cause, false);
        })?;
        let on = Arc::clone(&running);
        thread::Builder::new().name("deployment-watch".into()).spawn(move || on.attend(&link, true)).map(drop)
    };
    threads().map_err(|error| unavailable("watch a process", error))?;
    Ok(running)
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

impl RunningProcess {
    fn new(handle: InstanceHandle, folder: InstanceFolder, port: u16, hold: ProcessHandle, log: EventLog) -> Self {
        let (spec, state) = (Mutex::default(), Mutex::default());
        Self { handle, folder, port, spec, hold, log, state, changed: Condvar::new() }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().has_ended
    }

    pub(super) fn channel(&self) -> Option<Arc<Channel>> {
        self.state.lock().channel.clone()
    }

    fn push(&self, event: InstanceEvent) {
        self.state.lock().events.push_back(event);
        self.changed.notify_all();
    }

    fn hear(&self, notice: &ChildNotice) {
        match notice {
            ChildNotice::Ready => self.state.lock().is_ready = true,
            ChildNotice::VolumeFull(full) => self.push(InstanceEvent::VolumeFull(*full)),
            ChildNotice::Gone => self.state.lock().channel = None,
        }
        self.changed.notify_all();
    }

    /// Records the end of the process, first in its log. `is_signal` means that the system reports a signal as the cause.
    fn end(&self, cause: String, is_signal: bool) {
        let stderr = last_of(&self.folder);
        let (killed, is_released) = {
            let state = self.state.lock();
            (state.killed, state.is_released)
        };
        let cause = killed.map_or(cause, |why| format!("killed: {why}"));
        let process = self.handle.process;
        let line = if killed.is_some() || is_signal {
            format!("WARN the process was killed event=killed process={process} cause={cause:?}")
        } else {
            format!("INFO the process ended event=stopped process={process} cause={cause:?}")
        };
        // The end of a process that was released is recorded by the server that took it over.
        if !is_released {
            self.log.write(&line);
        }
        let mut state = self.state.lock();
        if let Some(channel) = state.channel.take() {
            channel.close();
        }
        state.has_ended = true;
        state.events.push_back(InstanceEvent::Ended { cause, stderr });
        drop(state);
        self.changed.notify_all();
    }

    fn is_watched(&self) -> bool {
        let state = self.state.lock();
        !state.has_ended && !state.is_released
    }

    /// Waits until the process is ready, then pings it. `is_adopted` means that an earlier run of the server started it.
    fn attend(self: &Arc<Self>, link: &ProcessLink, is_adopted: bool) {
        let deadline = Instant::now() + READY;
        while self.is_watched() && !self.is_up(link) {
            if Instant::now() >= deadline {
                tracing::warn!(instance = %self.handle.instance, "a deployment did not become ready");
                self.kill("it did not become ready within 30 s");
                return;
            }
            thread::sleep(LOOK);
        }
        if let Some(channel) = self.channel() {
            let version = channel.version.clone();
            if !is_adopted {
                self.log.write(&format!("INFO the instance serves event=started process={}", self.handle.process));
            }
            self.push(InstanceEvent::Ready { host: link.host.clone(), version });
        }
        let mut misses = 0;
        let mut due = Instant::now() + PING_EVERY;
        while self.is_watched() {
            self.wait_for_end(due.saturating_duration_since(Instant::now()));
            if !self.is_watched() {
                return;
            }
            // The interval includes the time that an answer takes: a process that hangs is pinged every 5 s too.
            due = Instant::now() + PING_EVERY;
            if self.channel().is_none() {
                // Only the channel closed; it is opened again.
                let _ = self.connect(link);
            }
            let answered =
                self.channel().is_some_and(|channel| channel.ask(ControlRequest::Ping, PING_PATIENCE).is_ok());
            if answered || !self.is_watched() {
                misses = 0;
                continue;
            }
            misses += 1;
            self.log.write(&format!(
                "WARN the process did not answer a ping event=ping_missed process={} missed={misses}",
                self.handle.process
            ));
            if misses == MISSES {
                // Killed here, because the supervisor may be waiting for an answer of this process.
                let why = "it missed three pings";
                self.state.lock().killed.get_or_insert(why);
                self.push(InstanceEvent::Unresponsive);
                self.kill(why);
                return;
            }
        }
    }

    fn is_up(self: &Arc<Self>, link: &ProcessLink) -> bool {
        if self.channel().is_none() && !self.connect(link) {
            return false;
        }
        self.state.lock().is_ready && link.is_healthy(self.port)
    }

    fn connect(self: &Arc<Self>, link: &ProcessLink) -> bool {
        let process = Arc::clone(self);
        let Ok(channel) = link.open(move |notice| process.hear(&notice)) else { return false };
        let is_it = channel.process == self.handle.process && channel.port == self.port;
        if is_it {
            self.state.lock().channel = Some(channel);
        } else {
            channel.close();
        }
        is_it
    }

    fn kill(&self, why: &'static str) {
        self.state.lock().killed.get_or_insert(why);
        if let Err(error) = self.hold.kill() {
            tracing::error!(%error, instance = %self.handle.instance, "cannot kill a process");
        }
    }

    /// Waits until the process has ended, for at most `most`. Returns `true` if it has ended.
    fn wait_for_end(&self, most: Duration) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |state| !state.has_ended && !state.is_released, most);
        state.has_ended
    }

    pub(super) fn next_event(&self, wait: Duration) -> Result<Option<InstanceEvent>, ProvisionError> {
        let mut state = self.state.lock();
        let is_quiet = |state: &mut ProcessState| state.events.is_empty() && !state.is_over && !state.is_released;
        self.changed.wait_while_for(&mut state, is_quiet, wait);
        let event = state.events.pop_front();
        if event.is_none() && (state.is_over || state.is_released) {
            return Err(ProvisionError::Gone);
        }
        state.is_over |= matches!(event, Some(InstanceEvent::Ended { .. }));
        Ok(event)
    }

    pub(super) fn stop(&self, deadline: Duration) -> Result<(), ProvisionError> {
        let until = Instant::now() + deadline;
        if let Some(channel) = self.channel() {
            // The reply does not matter, only the end of the process does.
            let _ = channel.ask(ControlRequest::Drain, deadline.min(PING_EVERY));
        } else {
            self.kill("it was not reachable, so that it could not be drained");
        }
        if !self.wait_for_end(until.saturating_duration_since(Instant::now())) {
            self.kill("it did not end within its time");
            if !self.wait_for_end(PING_EVERY) {
                return Err(unavailable("stop a process", "it does not end, not even killed"));
            }
        }
        let mut state = self.state.lock();
        state.events.clear();
        state.is_over = true;
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    pub(super) fn release(&self) {
        let mut state = self.state.lock();
        state.is_released = true;
        if let Some(channel) = state.channel.take() {
            channel.close();
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// Returns the end of standard error as text, with tokens masked.
fn last_of(folder: &InstanceFolder) -> String {
    let read = folder.open().and_then(|home| home.sub(LOG)?.read_last(STDERR, READ));
    let bytes = read.unwrap_or_default();
    let text = mask(&String::from_utf8_lossy(&bytes));
    let mut from = text.len().saturating_sub(TOLD);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{FileExt as _, symlink};
    use std::sync::mpsc;

    use branchyard_deployments::values::{DeploymentId, InstanceId};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn of_standard_error_the_end_is_told_and_no_other_file() {
        let root = tempfile::tempdir().unwrap();
        let (deployment, instance) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let folder =
            InstanceFolder::of(root.path(), DeploymentId::from_uuid(deployment), InstanceId::from_uuid(instance));
        assert_eq!(last_of(&folder), "");
        fs::create_dir_all(folder.log()).unwrap();
        let stderr = folder.log().join(STDERR);
        let file = File::create(&stderr).unwrap();
        file.set_len(1 << 40).unwrap();
        file.write_all_at(b"the end", 1 << 40).unwrap();
        assert!(last_of(&folder).ends_with("the end"));

        fs::remove_file(&stderr).unwrap();
        fs::write(root.path().join("secret"), "secret").unwrap();
        symlink(root.path().join("secret"), &stderr).unwrap();
        assert_eq!(last_of(&folder), "");
        fs::remove_file(&stderr).unwrap();
        assert!(Command::new("mkfifo").arg(&stderr).status().unwrap().success());
        let (done, waiting) = mpsc::channel();
        thread::spawn(move || done.send(last_of(&folder)).unwrap());
        assert_eq!(waiting.recv_timeout(Duration::from_secs(60)).expect("a pipe blocks"), "");
    }
}
