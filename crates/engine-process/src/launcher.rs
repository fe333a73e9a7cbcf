//! The launcher: a small process that starts workers, so that the server neither copies its memory map for each of them nor
//! passes on what it has open.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};

use parking_lot::Mutex;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::channel::{Channel, ChannelError, pair};
use crate::inherited::close_at_exec;
use crate::options::WorkerCommand;
use crate::wire::Wire as _;

/// Arguments that this crate appends to those of the command.
pub(crate) const LAUNCHER: &str = "launcher";
pub(crate) const WORKER: &str = "worker";
/// User ids for workers of a server that runs as root, so that workers cannot send each other signals. The range is the one
/// that systemd reserves for users that exist while a service runs.
const USERS: std::ops::RangeInclusive<u32> = 61_184..=65_519;
/// The environment of a worker. Opening a file hashes all records since its last checkpoint, and a new head is opened after each
/// write, so writers make checkpoints more often than the engine does by itself (every 2,048 records or 8 MiB).
const ENVIRONMENT: [(&str, &str); 2] =
    [("DOLTLITE_WAL_CHECKPOINT_CHUNKS", "128"), ("DOLTLITE_WAL_CHECKPOINT_THRESHOLD", "524288")];

/// A started worker.
#[derive(Debug)]
pub(crate) struct Launched {
    /// Carries messages.
    pub(crate) socket: OwnedFd,
    /// Carries signals.
    pub(crate) control: OwnedFd,
    /// Refers to the process.
    pub(crate) process: OwnedFd,
    pub(crate) pid: u32,
}

/// The server's end of the launcher.
#[derive(Debug)]
pub(crate) struct Launcher {
    command: WorkerCommand,
    running: Mutex<Running>,
}

#[derive(Debug)]
struct Running {
    channel: Channel,
    process: Child,
}

impl Running {
    fn start(command: &WorkerCommand) -> io::Result<Self> {
        let (ours, theirs) = pair()?;
        let process = Command::new(&command.program)
            .args(&command.arguments)
            .arg(LAUNCHER)
            .env_clear()
            .envs(ENVIRONMENT)
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { channel: Channel::new(ours), process })
    }

    fn launch(&mut self) -> Result<Launched, ChannelError> {
        self.channel.queue(0, |_| ())?;
        self.channel.flush(&[], &mut || true)?;
        let message = self.channel.receive(&mut || true, &mut |_| true)?;
        let started = Result::<u32, String>::decode(message.content);
        let descriptors: Result<[OwnedFd; 3], _> = self.channel.take_descriptors().try_into();
        match (started, descriptors) {
            (Ok(Ok(pid)), Ok([socket, control, process])) => Ok(Launched { socket, control, process, pid }),
            (Ok(Err(error)), _) => Err(io::Error::other(error).into()),
            _ => Err(io::Error::other("the launcher sent a malformed message").into()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already. Its workers end with their own connections.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Launcher {
    /// Starts the launcher.
    pub(crate) fn start(command: WorkerCommand) -> io::Result<Self> {
        let running = Mutex::new(Running::start(&command)?);
        Ok(Self { command, running })
    }

    /// Starts a worker. If the launcher ended, starts it again first.
    pub(crate) fn launch(&self) -> io::Result<Launched> {
        let mut running = self.running.lock();
        let launched = match running.launch() {
            Err(ChannelError::Closed) => {
                tracing::warn!("the launcher of worker processes ended; starting it again");
                *running = Running::start(&self.command)?;
                running.launch()
            }
            launched => launched,
        };
        launched.map_err(|error| match error {
            ChannelError::Io(error) => error,
            error => io::Error::other(error),
        })
    }
}

/// Starts workers until the server closes its end. `arguments` are those of this process without the last.
pub(crate) fn run(socket: OwnedFd, arguments: Vec<OsString>) -> ExitCode {
    // The server may have inherited descriptors from the program that started it. A kernel without this call cannot confine
    // workers either, which is found out later.
    drop(close_at_exec());
    let mut channel = Channel::new(socket);
    let mut workers: Vec<Child> = Vec::new();
    let mut user = USERS.cycle();
    while channel.receive(&mut || true, &mut |_| true).is_ok() {
        workers.retain_mut(|worker| matches!(worker.try_wait(), Ok(None)));
        let started = start_worker(&arguments, rustix::process::geteuid().is_root().then(|| user.next()).flatten());
        let sent = match started {
            Ok((worker, descriptors)) => {
                let descriptors: Vec<_> = descriptors.iter().map(OwnedFd::as_fd).collect();
                let queued = channel.queue(0, |out| Ok::<u32, String>(worker.id()).put(out));
                workers.push(worker);
                queued.and_then(|()| channel.flush(&descriptors, &mut || true))
            }
            Err(error) => {
                let queued = channel.queue(0, |out| Err::<u32, String>(error.to_string()).put(out));
                queued.and_then(|()| channel.flush(&[], &mut || true))
            }
        };
        if sent.is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Starts a worker, as another user if there is one. Returns the server's ends of its connections and a reference to the process.
pub(crate) fn start_worker(arguments: &[OsString], user: Option<u32>) -> io::Result<(Child, [OwnedFd; 3])> {
    let start = |user: Option<u32>| {
        let (socket, their_socket) = pair()?;
        let (control, their_control) = pair()?;
        // The program may lie where the user of the worker has no access, but the process always finds itself.
        let mut command = Command::new("/proc/self/exe");
        command.args(arguments).arg(WORKER).env_clear().envs(ENVIRONMENT).current_dir("/");
        command.stdin(Stdio::from(their_socket)).stdout(Stdio::from(their_control)).stderr(Stdio::null());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let worker = command.spawn()?;
        let pid = i32::try_from(worker.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        Ok((worker, [socket, control, process]))
    };
    match start(user) {
        // A container may have no such user.
        Err(_) if user.is_some() => start(None),
        started => started,
    }
}
