//! Previews of writes: runs untrusted statements in a transaction, compares what it sees with the commit that it began at, and rolls
//! it back.
//!
//! The engine makes commits durable at once, also inside a transaction, so a preview makes none. It never ends its transaction either,
//! which writes do to save memory or before `ALTER TABLE`; what needs that is refused.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use branchyard_domain::ports::{
    ChangedRows, EngineError, PreviewJob, PreviewPlace, PreviewRefusal, Previewed, PreviewedTable, RowPage, SqlFailure,
    WritePreview,
};
use branchyard_domain::values::DatabaseId;

use crate::connection::{Connection, TimeLimit};
use crate::deferred_references::has_broken_references;
use crate::diff::{Comparison, DiffEnd, changed_rows, changed_tables};
use crate::engine::DoltliteEngine;
use crate::memory::MemoryBudget;
use crate::private_copy::PrivateCopy;
use crate::sql::errors::{self, StatementFailure};
use crate::sql::statement_kind::{StatementKind, statement_kind};
use crate::write::{for_each_statement, run_one, start};

/// Maximum number of private copies that previews use at the same time, over all databases.
const COPIES: usize = 4;

/// The number of private copies that previews use.
#[derive(Debug, Default)]
pub struct PreviewCopies(AtomicUsize);

/// The right to use a private copy, until dropped.
#[derive(Debug)]
pub struct PreviewCopySlot<'a>(&'a AtomicUsize);

impl PreviewCopies {
    /// Reserves a slot for a private copy.
    ///
    /// # Errors
    /// [`EngineError::Busy`] if all are in use.
    pub fn take(&self) -> Result<PreviewCopySlot<'_>, EngineError> {
        let more = |used| (used < COPIES).then_some(used + 1);
        match self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more) {
            Ok(_) => Ok(PreviewCopySlot(&self.0)),
            Err(_) => Err(EngineError::Busy),
        }
    }
}

impl Drop for PreviewCopySlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) fn preview(
    engine: &DoltliteEngine,
    database: DatabaseId,
    job: &PreviewJob<'_>,
) -> Result<Previewed, EngineError> {
    match job.place {
        PreviewPlace::File => {
            let turn = engine.queues.enter_within(database, job.timeout).ok_or(EngineError::Busy)?;
            engine.writing_at(&turn, job.base, |connection| try_on(engine, database, connection, job))
        }
        PreviewPlace::Copy => {
            let _slot = engine.preview_copies.take()?;
            let copy = PrivateCopy::of(engine, database, &[job.base], engine.options.trial_copy_bytes)?;
            let copy = copy.ok_or(EngineError::Busy)?;
            copy.connection().limit_to(engine.scope(database, job.base));
            try_on(engine, database, copy.connection(), job)
        }
    }
}

/// Runs the statements on a connection, and compares. The caller rolls back.
fn try_on(
    engine: &DoltliteEngine,
    database: DatabaseId,
    connection: &Connection,
    job: &PreviewJob<'_>,
) -> Result<Previewed, EngineError> {
    let until = Instant::now() + job.timeout;
    let rows_affected = match run(engine, connection, job)? {
        Ok(rows_affected) => rows_affected,
        Err(refusal) => return Ok(Previewed::Refused(refusal)),
    };
    if connection.is_wrapped() {
        return Ok(Previewed::Refused(PreviewRefusal::ReadsHistory));
    }
    match compare(engine, database, connection, job, until) {
        Ok(tables) => Ok(Previewed::Changes(WritePreview { rows_affected, tables })),
        Err(EngineError::TimedOut(_)) => Ok(Previewed::Refused(PreviewRefusal::TooLong)),
        Err(error) => Err(error),
    }
}

/// Runs the statements in a transaction that stays open. Returns the number of changed rows.
fn run(
    engine: &DoltliteEngine,
    connection: &Connection,
    job: &PreviewJob<'_>,
) -> Result<Result<u64, PreviewRefusal>, EngineError> {
    let timed = connection
        .limit_time(&engine.watchdog, job.timeout)
        .map_err(|error| errors::fault("set a time limit", error))?;
    let (mut before, mut refusal) = (0, None);
    let ran = timed.with_room(
        |memory| {
            refusal = None;
            // Discards the changes of a previous attempt that ran out of memory.
            connection
                .roll_back()
                .map_err(|error| (StatementFailure::Engine(errors::fault("start over", error)), 1))?;
            start(connection, job.base).map_err(|error| (StatementFailure::Engine(error), 1))?;
            before = connection.raw().total_changes();
            run_statements(connection, job.statements, &timed, memory, &mut refusal)
        },
        || false,
    );
    if let Some(refusal) = refusal {
        return Ok(Err(refusal));
    }
    if let Err((failed, statement)) = ran {
        return match (timed.ended(), timed.memory().exceeded()) {
            (Some(EngineError::TimedOut(_)), _) => Ok(Err(PreviewRefusal::TooLong)),
            (None, Some(_)) => Ok(Err(PreviewRefusal::TooLarge)),
            (ended, _) => Err(errors::in_commit(job.base, failed.unless_ended(ended).at(statement))),
        };
    }
    if has_broken_references(connection.raw()) {
        // The text of the engine for the commit that a write would make.
        let failure = SqlFailure::Engine("FOREIGN KEY constraint failed".to_owned());
        return Err(EngineError::Sql { failure, statement: 1 });
    }
    Ok(Ok(connection.raw().total_changes().saturating_sub(before)))
}

fn run_statements(
    connection: &Connection,
    sql: &str,
    timed: &TimeLimit<'_>,
    memory: &MemoryBudget,
    refusal: &mut Option<PreviewRefusal>,
) -> Result<(), (StatementFailure, u32)> {
    let before = connection.raw().total_changes();
    for_each_statement(sql, |place, _| {
        if statement_kind(place.text) == StatementKind::Alter && connection.raw().total_changes() != before {
            *refusal = Some(PreviewRefusal::AltersAfterChanges);
            return Err(place.ends_early().into());
        }
        run_one(connection, place, false, memory)?;
        if timed.expired() { Err(SqlFailure::TimedOut(0).into()) } else { Ok(()) }
    })
}

/// Returns what differs between the base and what the connection sees.
fn compare(
    engine: &DoltliteEngine,
    database: DatabaseId,
    connection: &Connection,
    job: &PreviewJob<'_>,
    until: Instant,
) -> Result<Vec<PreviewedTable>, EngineError> {
    let left = || match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(EngineError::TimedOut(u64::try_from(job.timeout.as_millis()).unwrap_or(u64::MAX))),
        left => Ok(left),
    };
    let comparison = |timeout: Duration| Comparison {
        engine,
        database,
        from: DiffEnd::Commit(job.base),
        to: DiffEnd::Open(connection),
        timeout,
        // Leaves time for the rows.
        count_timeout: timeout / 2,
    };
    let changes = changed_tables(&comparison(left()?))?;
    let (mut before, mut after) = if changes.iter().any(|change| change.schema_changed) {
        comparison(left()?).definitions()?
    } else {
        Default::default()
    };
    let mut bytes = job.bytes;
    let mut tables = Vec::with_capacity(changes.len());
    for change in changes {
        let rows = match change.rows {
            Some((0, 0, 0)) => ChangedRows::default(),
            _ if bytes == 0 => ChangedRows { rows: Vec::new(), more: true },
            _ => {
                let page = RowPage { after: None, limit: job.rows, bytes };
                changed_rows(&comparison(left()?), &change.table, &page)?
            }
        };
        bytes = bytes.saturating_sub(rows.bytes());
        let definitions = match change.schema_changed {
            true => (before.remove(&change.table), after.remove(&change.table)),
            false => (None, None),
        };
        tables.push(PreviewedTable { change, rows, definitions });
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_copies_are_in_use_at_once() {
        let copies = PreviewCopies::default();
        let slots: Vec<_> = (0..COPIES).map(|_| copies.take().unwrap()).collect();
        assert!(matches!(copies.take(), Err(EngineError::Busy)));
        drop(slots);
        assert!(copies.take().is_ok());
    }
}
