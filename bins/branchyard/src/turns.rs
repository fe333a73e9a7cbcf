//! The engine's long calls take turns in the lane that the pools of the API share.

use branchyard_api_common::LongLane;
use branchyard_domain::ports::{Canceled, Flow};

/// The lane, as the engine asks it.
pub(crate) struct Turns(pub(crate) LongLane);

impl branchyard_engine_doltlite::Turns for Turns {
    fn begin(&self, shape: u64, canceled: &Canceled) -> Flow {
        self.0.begin(shape, canceled)
    }

    fn go_on(&self, canceled: &Canceled) -> Flow {
        self.0.go_on(canceled)
    }
}
