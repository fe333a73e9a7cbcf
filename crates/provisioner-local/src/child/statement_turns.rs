//! What an engine calls while it runs a statement for long, so that long statements do not delay short ones.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::ports::CancellationToken;

use super::slots::{self, RunningSlot};

/// The schedule of long statements. The engine of [`Tools`](super::Tools) calls it on the thread of a statement.
#[derive(Debug, Clone, Copy, Default)]
pub struct StatementTurns;

/// A statement that is watched from another thread.
#[derive(Clone)]
pub struct LongStatement(Arc<RunningSlot>);

impl std::fmt::Debug for LongStatement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LongStatement")
    }
}

impl StatementTurns {
    /// Computing time between two calls of [`StatementTurns::go_on`].
    pub const EVERY: Duration = Duration::from_millis(50);

    /// Called each time a statement has computed for [`StatementTurns::EVERY`]. May wait for the turn of the statement;
    /// breaks if the statement was canceled meanwhile.
    pub fn go_on(self, canceled: &CancellationToken) -> ControlFlow<()> {
        slots::here().map_or(ControlFlow::Continue(()), |slot| slot.go_on(canceled))
    }

    /// Returns the statement of this thread.
    pub fn statement(self) -> Option<LongStatement> {
        slots::here().map(LongStatement)
    }
}

impl LongStatement {
    /// Called repeatedly, from another thread, while the statement is inside an operation that cannot be interrupted.
    pub fn is_silent(&self) {
        self.0.leave_if_long();
    }
}
