//! Reads that a worker computes while no thread waits for it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::ports::{CancellationToken, EngineError, ReadQuery, ReadReport, RowSink, StartedRead};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_engine_doltlite::shape;

use super::{Blame, ProcessEngine};
use crate::call::{self, Begun};
use crate::messages::Call;
use crate::pool::Borrowed;
use crate::process::Access;

/// Longest statement that is started, in bytes. Longer ones may not fit into a socket at once.
const MOST_STATEMENT: usize = 32 << 10;

/// A read that a worker has begun.
struct WorkerRead {
    engine: Arc<ProcessEngine>,
    borrowed: Borrowed,
    begun: Begun,
    database: DatabaseId,
    sql: String,
    timeout: Duration,
    canceled: CancellationToken,
    call: Call,
}

impl ProcessEngine {
    /// Starts a read on an idle worker of the database, if there is one and the statement was not slow recently.
    pub(super) fn start(
        self: Arc<Self>,
        database: DatabaseId,
        at: &CommitHash,
        query: &ReadQuery<'_>,
    ) -> Option<Box<dyn StartedRead>> {
        let is_slow = self.options.long().is_some_and(|long| long.turns.is_slow(shape(database, query.sql)));
        if is_slow || query.sql.len() > MOST_STATEMENT || !self.formats.has_passed(database) {
            return None;
        }
        let mut borrowed = self.pool.take_idle(database, Access::Read, self.limits_history())?;
        let call = Call::Read { at: at.clone(), sql: query.sql.to_owned(), timeout: query.timeout };
        let begun = call::begin(&mut borrowed, &call).ok()?;
        if !call::send_now(&mut borrowed) {
            return None;
        }
        let (sql, timeout, canceled) = (query.sql.to_owned(), query.timeout, query.canceled.clone());
        Some(Box::new(WorkerRead { engine: self, borrowed, begun, database, sql, timeout, canceled, call }))
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
        let Self { engine, borrowed, begun, database, sql, timeout, canceled, call } = *self;
        if let Some(long) = engine.options.long()
            && long.turns.begin(shape(database, &sql), &canceled).is_break()
        {
            return Err(EngineError::Busy);
        }
        let (begun, blame) = (Some((borrowed, begun)), Blame::Statement(&sql));
        let stopped = ReadReport { deterministic: false };
        engine.stream_from(begun, database, &call, timeout, &canceled, sink, blame, stopped)
    }
}
