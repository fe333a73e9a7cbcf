//! The process in which a call computes while its thread waits.

use std::time::{Duration, Instant};

use crate::sync::OsProcess;

/// Time that counts as processor time, whatever the process did in it.
const VERY_SHORT: Duration = Duration::from_millis(1);

/// A process that computes for a call in its main thread.
pub(super) struct ComputingProcess {
    process: OsProcess,
    since: Instant,
    /// Processor time of the process at `since`. `None` if it cannot be read.
    began: Option<Duration>,
    /// Whether the priority of the process was lowered. `None` if this was not tried.
    lowered: Option<bool>,
}

impl ComputingProcess {
    /// Returns the process with this identifier, which computes for the call from now on.
    pub(super) fn new(id: u32) -> Self {
        let process = OsProcess::new(id);
        let began = process.computed();
        Self { process, since: Instant::now(), began, lowered: None }
    }

    /// Returns the processor time that the process has used for the call, as the kernel counts it. If the kernel's figure cannot be
    /// read, returns the time that has passed, and also if that is very short: most calls then end without a second system call.
    pub(super) fn used(&self) -> Duration {
        let passed = self.since.elapsed();
        let Some(began) = self.began.filter(|_| passed >= VERY_SHORT) else { return passed };
        self.process.computed().map_or(passed, |computed| computed.saturating_sub(began))
    }

    /// Lowers the priority of the process, unless this was tried before.
    pub(super) fn lower(&mut self) {
        self.lowered.get_or_insert_with(|| self.process.lower());
    }

    /// Returns `true` if the priority of the process was lowered.
    pub(super) fn is_lowered(&self) -> bool {
        self.lowered == Some(true)
    }
}
