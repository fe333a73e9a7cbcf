//! Whole tables at a commit, row by row.

use std::time::Duration;

use super::Inner;
use crate::access::{DatabaseAccess, Level};
use crate::entities::TableKind;
use crate::errors::ReadError;
use crate::ports::{CancellationToken, EngineError, RowSink, TableScan};
use crate::values::CommitHash;

/// When an export ends before all of its tables do.
#[derive(Debug, Clone)]
pub struct ExportLimits {
    timeout: Duration,
    left: Duration,
    canceled: CancellationToken,
}

impl ExportLimits {
    /// `timeout`: the time the engine may compute for all tables that are read under these limits; waiting for the sink does not
    /// count. `canceled` says that nobody wants the rows any more.
    pub fn new(timeout: Duration, canceled: CancellationToken) -> Self {
        Self { timeout, left: timeout, canceled }
    }

    fn timed_out(&self) -> ReadError {
        ReadError::TimedOut(u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Whole tables.
pub struct Exports<'a>(&'a Inner);

impl<'a> Exports<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// The names of the tables at a commit, by name. Views are not exported.
    ///
    /// # Errors
    /// [`ReadError::Fault`].
    pub fn tables<L: Level>(&self, access: &DatabaseAccess<L>, at: &CommitHash) -> Result<Vec<String>, ReadError> {
        let tables = self.0.ports.engine.tables(access.database().id, at)?;
        Ok(tables.into_iter().filter(|table| table.kind == TableKind::Table).map(|table| table.name).collect())
    }

    /// All rows of a table, by primary key; without one, by row id.
    ///
    /// # Errors
    /// [`ReadError::NoSuchTable`], [`ReadError::TimedOut`].
    pub fn table<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        at: &CommitHash,
        table: &str,
        limits: &mut ExportLimits,
        sink: &mut dyn RowSink,
    ) -> Result<(), ReadError> {
        if limits.left.is_zero() {
            return Err(limits.timed_out());
        }
        let scan = TableScan { table, timeout: limits.left, canceled: limits.canceled.clone() };
        match self.0.ports.engine.scan(access.database().id, at, &scan, sink) {
            Ok(left) => {
                limits.left = left;
                Ok(())
            }
            Err(EngineError::NoSuchTable(name)) => Err(ReadError::NoSuchTable(name)),
            Err(EngineError::TimedOut(_)) => Err(limits.timed_out()),
            Err(other) => Err(other.into()),
        }
    }
}
