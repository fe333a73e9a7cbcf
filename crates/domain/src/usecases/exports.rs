//! Exports: whole tables at a commit, row by row.

use std::time::Duration;

use super::Inner;
use crate::access::{DatabaseAccess, Level};
use crate::entities::TableKind;
use crate::errors::ReadError;
use crate::ports::{CancellationToken, EngineError, RowSink, TableScan};
use crate::values::CommitHash;

/// The limits of an export, shared by all of its tables.
#[derive(Debug, Clone)]
pub struct ExportLimits {
    timeout: Duration,
    left: Duration,
    canceled: CancellationToken,
}

impl ExportLimits {
    /// Creates limits. `timeout` bounds the engine's computing time for all tables read under these limits; waiting for the
    /// sink does not count. `canceled` ends the export early.
    pub fn new(timeout: Duration, canceled: CancellationToken) -> Self {
        Self { timeout, left: timeout, canceled }
    }

    fn timed_out(&self) -> ReadError {
        ReadError::TimedOut(u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Use cases of exports.
pub struct Exports<'a>(&'a Inner);

impl<'a> Exports<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns the names of the tables at a commit, in order. Views are not exported.
    ///
    /// # Errors
    /// [`ReadError::Port`].
    pub fn tables<L: Level>(&self, access: &DatabaseAccess<L>, at: &CommitHash) -> Result<Vec<String>, ReadError> {
        let tables = self.0.ports.engine.tables(access.database().id, at)?;
        Ok(tables.into_iter().filter(|table| table.kind == TableKind::Table).map(|table| table.name).collect())
    }

    /// Sends all rows of a table to `sink`, ordered by primary key, or by row id if the table has none.
    ///
    /// # Errors
    /// [`ReadError::NoSuchTable`]; [`ReadError::TimedOut`] if the time of `limits` is used up.
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
