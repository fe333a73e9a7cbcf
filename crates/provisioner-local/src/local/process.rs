//! Handles on processes, and the resources of the machine.

use std::io;
use std::path::Path;
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};

/// A handle on a process. Signals sent through it never reach another process that reuses the id.
pub(super) struct ProcessHandle {
    #[cfg(target_os = "linux")]
    fd: std::os::fd::OwnedFd,
    #[cfg(not(target_os = "linux"))]
    pid: Pid,
}

impl ProcessHandle {
    /// Opens a handle. A child process must not have been waited for, because its id could have been reused.
    pub(super) fn of(process: u32) -> io::Result<Self> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        #[cfg(target_os = "linux")]
        return Ok(Self { fd: rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())? });
        #[cfg(not(target_os = "linux"))]
        Ok(Self { pid })
    }

    /// Sends `SIGKILL`. Succeeds if the process has ended.
    pub(super) fn kill(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        let killed = rustix::process::pidfd_send_signal(&self.fd, Signal::KILL);
        #[cfg(not(target_os = "linux"))]
        let killed = rustix::process::kill_process(self.pid, Signal::KILL);
        match killed {
            Err(error) if error != rustix::io::Errno::SRCH => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Waits until the process has ended.
    pub(super) fn wait(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        loop {
            let mut polled = [PollFd::new(&self.fd, PollFlags::IN)];
            let minute = Timespec { tv_sec: 60, tv_nsec: 0 };
            match poll(&mut polled, Some(&minute)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        #[cfg(not(target_os = "linux"))]
        loop {
            if rustix::process::test_kill_process(self.pid).is_err() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Returns the start time of a process in clock ticks since boot, as text. Only compared for equality. Returns an empty
/// string if the time is unknown.
#[cfg(target_os = "linux")]
pub(super) fn started(process: u32) -> String {
    let process = i32::try_from(process).ok().and_then(|process| procfs::process::Process::new(process).ok());
    process.and_then(|process| process.stat().ok()).map(|stat| stat.starttime.to_string()).unwrap_or_default()
}

/// Returns an empty string, because the start time of a process is unknown on this system.
#[cfg(not(target_os = "linux"))]
pub(super) fn started(_process: u32) -> String {
    String::new()
}

/// Returns the memory of this machine in bytes.
#[cfg(target_os = "linux")]
pub(super) fn memory_bytes() -> Option<u64> {
    use procfs::Current as _;
    procfs::Meminfo::current().ok().map(|memory| memory.mem_total)
}

/// Returns `None`, because the memory of the machine is unknown on this system.
#[cfg(not(target_os = "linux"))]
pub(super) fn memory_bytes() -> Option<u64> {
    None
}

/// Returns the size in bytes of the file system that contains a path.
pub(super) fn disk_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_blocks.saturating_mul(found.f_frsize))
}

/// Polling interval.
pub(super) const LOOK: Duration = Duration::from_millis(20);
