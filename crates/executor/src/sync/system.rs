//! Synchronization by the operating system.

#[cfg(target_os = "linux")]
use std::fs::File;
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::process::Pid;

/// Increment of the `nice` value, which Linux keeps per thread. The scheduler then grants the thread a third of the processor time
/// of a normal one, and lets a thread that wakes up preempt it. On an idle machine the thread loses nothing.
#[cfg(target_os = "linux")]
pub(crate) const NICE_INCREMENT: i32 = 5;

/// Starts a thread for blocking calls. Returns `false` if the system has no room for another thread.
pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) -> bool {
    std::thread::Builder::new().name("call".to_owned()).spawn(work).is_ok()
}

/// A thread, by the identifier that the operating system gave it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OsThread {
    #[cfg(target_os = "linux")]
    id: Pid,
}

impl OsThread {
    /// Returns the thread that runs.
    pub(crate) fn current() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            id: rustix::thread::gettid(),
        }
    }

    /// Lowers the priority of the thread that runs. Has an effect only on Linux.
    pub(crate) fn lower_current() {
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::nice(NICE_INCREMENT) {
            tracing::debug!(%error, "a thread keeps its priority");
        }
    }

    /// Lowers the priority of this thread. The caller must ensure that the thread does not end meanwhile. Has an effect only on Linux.
    pub(crate) fn lower(self) {
        #[cfg(target_os = "linux")]
        if let Err(error) = lower_thread(self.id) {
            tracing::debug!(%error, "a thread keeps its priority");
        }
    }
}

/// The main thread of another process. Its identifier equals that of the process.
#[derive(Debug)]
pub(crate) struct OsProcess {
    /// `None` if no process can have the identifier.
    #[cfg(target_os = "linux")]
    id: Option<Pid>,
    /// The kernel's figures about the thread. The open file stays with this process, even if another one gets its identifier. `None`
    /// if the file cannot be opened.
    #[cfg(target_os = "linux")]
    schedstat: Option<File>,
}

#[cfg(target_os = "linux")]
impl OsProcess {
    /// Returns the main thread of the process with this identifier.
    pub(crate) fn new(id: u32) -> Self {
        let id = i32::try_from(id).ok().and_then(Pid::from_raw);
        let schedstat = id.and_then(|id| File::open(format!("/proc/{id}/schedstat")).ok());
        Self { id, schedstat }
    }

    /// Returns the processor time of the thread. Returns `None` if the process no longer exists, or if the figure cannot be
    /// read.
    pub(crate) fn computed(&self) -> Option<Duration> {
        use std::os::unix::fs::FileExt;

        // Three numbers of at most 20 digits.
        let mut content = [0; 64];
        let length = self.schedstat.as_ref()?.read_at(&mut content, 0).ok()?;
        let content = std::str::from_utf8(content.get(..length)?).ok()?;
        content.split_ascii_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    }

    /// Lowers the priority of the thread. Returns `true` if it succeeds.
    pub(crate) fn lower(&self) -> bool {
        let Some(id) = self.id else { return false };
        if self.schedstat.is_some() && self.computed().is_none() {
            tracing::debug!("a process has ended before its priority was lowered");
            return false;
        }
        let lowered = lower_thread(id);
        if let Err(error) = &lowered {
            tracing::debug!(%error, "a process keeps its priority");
        }
        lowered.is_ok()
    }
}

#[cfg(not(target_os = "linux"))]
impl OsProcess {
    /// Returns the main thread of the process with this identifier.
    pub(crate) fn new(_id: u32) -> Self {
        Self {}
    }

    /// Returns `None`: only Linux has this figure.
    pub(crate) fn computed(&self) -> Option<Duration> {
        None
    }

    /// Returns `false`: only Linux has a priority per thread.
    pub(crate) fn lower(&self) -> bool {
        false
    }
}

#[cfg(target_os = "linux")]
fn lower_thread(id: Pid) -> rustix::io::Result<()> {
    use rustix::process::{getpriority_process, setpriority_process};

    let priority = getpriority_process(Some(id))?;
    setpriority_process(Some(id), priority.saturating_add(NICE_INCREMENT))
}
