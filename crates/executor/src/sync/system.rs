//! Synchronization by the operating system.

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
    id: rustix::process::Pid,
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
        {
            use rustix::process::{getpriority_process, setpriority_process};

            let lower = |priority: i32| setpriority_process(Some(self.id), priority.saturating_add(NICE_INCREMENT));
            if let Err(error) = getpriority_process(Some(self.id)).and_then(lower) {
                tracing::debug!(%error, "a thread keeps its priority");
            }
        }
    }
}
