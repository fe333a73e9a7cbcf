//! SQL reads that compute in another process while no thread waits for them.

use std::ops::ControlFlow;
use std::time::Duration;

use branchyard_domain::ports::{Column, RowSink, StartedRead, ValueRef};
use branchyard_executor::AdmittedCall;

/// How long a result is waited for without a thread. After that a thread waits, because a read that goes on asks for turns, and its
/// limits have to be watched.
const PATIENCE: Duration = Duration::from_millis(5);

/// A SQL read that has a slot, and may have started.
pub struct ReadStart(Option<(AdmittedCall, Option<Box<dyn StartedRead>>)>);

impl ReadStart {
    pub(crate) fn new(admitted: AdmittedCall, started: Option<Box<dyn StartedRead>>) -> Self {
        Self(Some((admitted, started)))
    }

    /// Waits for the result for a short time. Returns `true` if it is at hand.
    pub(crate) async fn is_at_hand(&mut self) -> bool {
        let Some((_, Some(read))) = &mut self.0 else { return false };
        has_arrived(&**read).await && read.is_at_hand()
    }

    pub(crate) fn into_parts(mut self) -> Option<(AdmittedCall, Option<Box<dyn StartedRead>>)> {
        self.0.take()
    }
}

impl Drop for ReadStart {
    fn drop(&mut self) {
        // The client has disconnected, which canceled the read. A thread sees it end, so that the process need not be ended.
        if let Some((admitted, Some(read))) = self.0.take() {
            admitted.run_detached(move || drop(read.finish(&mut NoRows)));
        }
    }
}

#[cfg(unix)]
async fn has_arrived(read: &dyn StartedRead) -> bool {
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    #[expect(unsafe_code, reason = "there is no safe function for descriptors that are not owned")]
    // SAFETY: The descriptor is borrowed from the read, which outlives the registration.
    let registered = unsafe { AsyncFd::register_with_interest(read.descriptor(), Interest::READABLE) };
    let Ok(descriptor) = registered else { return false };
    matches!(tokio::time::timeout(PATIENCE, descriptor.readable()).await, Ok(Ok(_)))
}

#[cfg(not(unix))]
async fn has_arrived(_: &dyn StartedRead) -> bool {
    false
}

/// Takes rows that no one needs.
struct NoRows;

impl RowSink for NoRows {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}
