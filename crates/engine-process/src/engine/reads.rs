//! Reads by statements, and those that a worker computes while no thread waits for it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::ports::{CancellationToken, EngineError, ReadQuery, ReadReport, RowSink, StartedRead};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_engine_doltlite::shape;

use super::{Blame, ProcessEngine, UserRead};
use crate::call::{self, Begun};
use crate::messages::Call;
use crate::pool::Borrowed;
use crate::process::Access;

/// Longest statement that is started, in bytes. Longer ones may not fit into a socket at once.
const MOST_STATEMENT: usize = 32 << 10;

/// A statement that reads.
pub(super) struct Read {
    database: DatabaseId,
    shape: u64,
    sql: String,
    timeout: Duration,
    canceled: CancellationToken,
    call: Call,
}

/// A read that a worker has begun.
struct WorkerRead {
    engine: Arc<ProcessEngine>,
    borrowed: Borrowed,
    begun: Begun,
    read: Read,
}

impl Read {
    pub(super) fn of(database: DatabaseId, at: &CommitHash, query: &ReadQuery<'_>) -> Self {
        Self {
            database,
            shape: shape(database, query.sql),
            sql: query.sql.to_owned(),
            timeout: query.timeout,
            canceled: query.canceled.clone(),
            call: Call::Read { at: at.clone(), sql: query.sql.to_owned(), timeout: query.timeout },
        }
    }
}

impl ProcessEngine {
    /// Starts a read on an idle worker of the database, if there is one and the statement was not slow recently.
    pub(super) fn start(
        self: Arc<Self>,
        database: DatabaseId,
        at: &CommitHash,
        query: &ReadQuery<'_>,
    ) -> Option<Box<dyn StartedRead>> {
        // A long statement also takes long to copy and to find the shape of, for the thread that must not be held up.
        if query.sql.len() > MOST_STATEMENT || !self.formats.has_passed(database) {
            return None;
        }
        let read = Read::of(database, at, query);
        if self.options.long().is_some_and(|long| long.turns.is_slow(read.shape)) {
            return None;
        }
        let mut borrowed = self.pool.take_idle(database, Access::Read, self.limits_history())?;
        let begun = call::begin(&mut borrowed, &read.call).ok()?;
        call::send_now(&mut borrowed).then(|| Box::new(WorkerRead { engine: self, borrowed, begun, read }) as _)
    }

    /// Runs a read, which a worker may have begun.
    pub(super) fn run_read(
        &self,
        Read { database, shape, sql, timeout, canceled, call }: Read,
        begun: Option<(Borrowed, Begun)>,
        sink: &mut dyn RowSink,
    ) -> Result<ReadReport, EngineError> {
        if let Some(long) = self.options.long()
            && long.turns.begin(shape, &canceled).is_break()
        {
            return Err(EngineError::Busy);
        }
        let (canceled, blame) = (&canceled, Blame::Statement(&sql));
        let read = UserRead { database, call: &call, timeout, canceled, blame };
        self.stream(read, begun, sink, ReadReport { deterministic: false })
    }
}

impl StartedRead for WorkerRead {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.borrowed.descriptor()
    }

    fn is_at_hand(&mut self) -> bool {
        call::is_at_hand(&mut self.borrowed)
    }

    fn finish(self: Box<Self>, sink: &mut dyn RowSink) -> Result<ReadReport, EngineError> {
        let Self { engine, borrowed, begun, read } = *self;
        engine.run_read(read, Some((borrowed, begun)), sink)
    }
}
