//! The engine's long calls take turns in the lane that the pools of the API share.

use std::sync::Arc;

use branchyard_domain::ports::{Canceled, Flow};
use branchyard_engine_doltlite::WatchedCall;
use branchyard_executor::{ScheduledCall, SlowQueryScheduler};

/// The lane, as the engine asks it.
pub(crate) struct Turns(pub(crate) SlowQueryScheduler);

impl branchyard_engine_doltlite::Turns for Turns {
    fn begin(&self, shape: u64, canceled: &Canceled) -> Flow {
        self.0.begin(shape, canceled)
    }

    fn go_on(&self, canceled: &Canceled) -> Flow {
        self.0.go_on(canceled)
    }

    fn pause(&self) -> Flow {
        self.0.pause()
    }

    fn call(&self) -> Option<Arc<dyn WatchedCall>> {
        self.0.call().map(|call| Arc::new(Watched(call)) as Arc<dyn WatchedCall>)
    }
}

/// A call of the lane, as the engine watches it.
#[derive(Debug)]
struct Watched(ScheduledCall);

impl WatchedCall for Watched {
    fn is_silent(&self) {
        self.0.make_long();
    }
}
