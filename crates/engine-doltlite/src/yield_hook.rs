//! The hook that schedules long-running calls of the engine.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::ports::CancellationToken;

/// Settings for calls of the engine that compute for long, so that many of them cannot starve short calls of processor
/// time.
#[derive(Clone)]
pub struct Long {
    /// Computing time between two calls of [`YieldHook::go_on`].
    pub every: Duration,
    /// The scheduler that decides whether a call may continue.
    pub turns: Arc<dyn YieldHook>,
}

/// A scheduler of long-running calls.
///
/// Its methods are called on the thread of the call, and may block. The blocked time does not count against the time
/// limit of the call. An implementation should stop blocking once `canceled` is set. [`ControlFlow::Break`] ends the call with
/// [`EngineError::Busy`](branchyard_domain::ports::EngineError::Busy).
pub trait YieldHook: Send + Sync {
    /// Called before a user's read begins, while no resource is held for the read. Statements on one database that
    /// differ only in literals, comments and white space have the same `shape`.
    fn begin(&self, shape: u64, canceled: &CancellationToken) -> ControlFlow<()>;

    /// Returns `true` if [`YieldHook::begin`] may block for a statement of this shape. Never blocks, and may be called on any thread.
    fn is_slow(&self, shape: u64) -> bool {
        let _ = shape;
        false
    }

    /// Called each time a call has computed for [`Long::every`].
    fn go_on(&self, canceled: &CancellationToken) -> ControlFlow<()>;

    /// Called before a call waits for memory. The call computes nothing until it has called [`YieldHook::go_on`].
    fn pause(&self) -> ControlFlow<()>;

    /// Called when the call starts to compute in the main thread of another process, with the id of the process. From then on, the
    /// processor time of that thread counts as used by the call, and a call that computes for long lowers the priority of the
    /// process instead of that of its own thread. The process must not be reaped before [`YieldHook::returned`], because another
    /// process may then get its id.
    fn computes_in(&self, process: u32) {
        let _ = process;
    }

    /// Called when the call no longer computes in another process. Returns `true` if the priority of the process was lowered. The
    /// caller then ends the process, because its priority cannot be raised again without a privilege.
    fn returned(&self) -> bool {
        false
    }

    /// Returns the call of the current thread, to be watched from another thread.
    fn call(&self) -> Option<Arc<dyn WatchedCall>>;
}

/// A call that is watched from another thread.
pub trait WatchedCall: fmt::Debug + Send + Sync {
    /// Reports that the call is overdue with its call of [`YieldHook::go_on`], because it is inside an operation that
    /// cannot be interrupted.
    ///
    /// Called repeatedly for as long as that state lasts, and perhaps once after the call has ended. Must not block.
    fn is_silent(&self);
}

impl fmt::Debug for Long {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Long").field("every", &self.every).finish_non_exhaustive()
    }
}
