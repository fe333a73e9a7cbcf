//! Calls that compute for long, and whom to ask whether they may.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::ports::{CancellationToken, Flow};

/// Whom to ask about calls of the engine that compute for long, so that many of them cannot take the processor from short ones.
#[derive(Clone)]
pub struct Long {
    /// Time computed between two questions.
    pub every: Duration,
    /// Who answers.
    pub turns: Arc<dyn YieldHook>,
}

/// Gives turns to calls. Asked on the thread of the call; the answer may be a while in coming: the time it takes does not count against
/// the call's limit, and is not worth waiting for once nobody wants the result. [`Flow::Stop`] ends the call with
/// [`EngineError::Busy`](branchyard_domain::ports::EngineError::Busy).
pub trait YieldHook: Send + Sync {
    /// A stranger's read is about to begin; nothing is held for it yet. Statements on a database that differ in literals, comments and
    /// white space only have the same `shape`.
    fn begin(&self, shape: u64, canceled: &CancellationToken) -> Flow;

    /// A call has computed for [`Long::every`] again.
    fn go_on(&self, canceled: &CancellationToken) -> Flow;

    /// A call is about to wait for memory, and computes nothing until it has asked [`YieldHook::go_on`].
    fn pause(&self) -> Flow;

    /// The call of this thread, for whoever watches it from another one.
    fn call(&self) -> Option<Arc<dyn WatchedCall>>;
}

/// A call, watched from another thread.
pub trait WatchedCall: fmt::Debug + Send + Sync {
    /// The call should have asked [`YieldHook::go_on`] and did not: it is within something that cannot be stopped. Told again for as long as that
    /// lasts, and perhaps once more after the call has ended. Must not block.
    fn is_silent(&self);
}

impl fmt::Debug for Long {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Long").field("every", &self.every).finish_non_exhaustive()
    }
}
