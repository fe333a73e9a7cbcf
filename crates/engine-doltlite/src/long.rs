//! Calls that compute for long, and whom to ask whether they may.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::ports::{Canceled, Flow};

/// Whom to ask when a call of the engine computes for long, so that many of them cannot take the processor from short ones.
///
/// Asked on the thread of the call, each time it computed for `after` again. The answer may be a while in coming: the time it takes does not count
/// against the call's limit. [`Flow::Stop`] ends the call with [`EngineError::Busy`](branchyard_domain::ports::EngineError::Busy).
#[derive(Clone)]
pub struct Long {
    /// Time computed between two questions.
    pub after: Duration,
    /// Gives whether the call may go on; not worth waiting for once nobody wants the result.
    pub ask: Arc<dyn Fn(&Canceled) -> Flow + Send + Sync>,
}

impl fmt::Debug for Long {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Long").field("after", &self.after).finish_non_exhaustive()
    }
}
