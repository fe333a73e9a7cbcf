//! The priority of threads at the processor. A thread that computes for a slow call lowers its priority, so that short calls precede it.
//! Without a privilege a thread cannot raise its priority again.

use std::cell::Cell;

/// Increment of the `nice` value, which Linux keeps per thread. The scheduler then grants the thread a third of the processor time
/// of a normal one, and lets a thread that wakes up preempt it. On an idle machine the thread loses nothing.
#[cfg(target_os = "linux")]
pub(crate) const NICE_INCREMENT: i32 = 5;

thread_local! {
    static IS_LOWERED: Cell<bool> = const { Cell::new(false) };
}

/// Lowers the priority of this thread for the rest of its life. Has an effect only on Linux.
pub(crate) fn lower() {
    if IS_LOWERED.replace(true) {
        return;
    }
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICE_INCREMENT) {
        tracing::debug!(%error, "a thread keeps its priority");
    }
}

/// Returns `true` if the priority of this thread was lowered.
pub(crate) fn is_lowered() -> bool {
    IS_LOWERED.get()
}

/// Marks this thread, whose priority [`lower_of`] has lowered, to end after its job.
pub(crate) fn mark_as_lowered() {
    IS_LOWERED.set(true);
}

/// Identifies a thread to [`lower_of`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadOfCall {
    #[cfg(target_os = "linux")]
    id: rustix::process::Pid,
}

impl ThreadOfCall {
    pub(crate) fn current() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            id: rustix::thread::gettid(),
        }
    }
}

/// Lowers the priority of another thread. The caller must ensure that the thread does not end meanwhile.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "there is no such priority"))]
pub(crate) fn lower_of(thread: ThreadOfCall) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};

        let lower = |priority: i32| setpriority_process(Some(thread.id), priority.saturating_add(NICE_INCREMENT));
        if let Err(error) = getpriority_process(Some(thread.id)).and_then(lower) {
            tracing::debug!(%error, "a thread keeps its priority");
        }
    }
}
