//! Adapter between the engine and the slow-query scheduler that the API's pools share.

use std::ops::ControlFlow;
use std::sync::Arc;

use branchyard_domain::ports::CancellationToken;
use branchyard_engine_doltlite::WatchedCall;
use branchyard_executor::{ScheduledCall, SlowQueryScheduler};

/// The slow-query scheduler as the engine's yield hook.
pub(crate) struct SchedulerBridge(pub(crate) SlowQueryScheduler);

impl branchyard_engine_doltlite::YieldHook for SchedulerBridge {
    fn begin(&self, shape: u64, canceled: &CancellationToken) -> ControlFlow<()> {
        self.0.begin(shape, canceled)
    }

    fn is_slow(&self, shape: u64) -> bool {
        self.0.is_slow(shape)
    }

    fn go_on(&self, canceled: &CancellationToken) -> ControlFlow<()> {
        self.0.go_on(canceled)
    }

    fn pause(&self) -> ControlFlow<()> {
        self.0.pause()
    }

    fn computes_in(&self, process: u32) {
        self.0.computes_in(process);
    }

    fn returned(&self) -> bool {
        self.0.returned()
    }

    fn call(&self) -> Option<Arc<dyn WatchedCall>> {
        self.0.call().map(|call| Arc::new(BridgedCall(call)) as Arc<dyn WatchedCall>)
    }
}

/// A scheduled call that the engine's watchdog can mark as slow.
#[derive(Debug)]
struct BridgedCall(ScheduledCall);

impl WatchedCall for BridgedCall {
    fn is_silent(&self) {
        self.0.make_slow();
    }
}
