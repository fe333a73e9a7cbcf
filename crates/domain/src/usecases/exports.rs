//! Whole tables at a commit, row by row.

use std::time::Duration;

use super::Inner;
use crate::access::{DatabaseAccess, Level};
use crate::entities::TableKind;
use crate::errors::ReadError;
use crate::ports::{Canceled, EngineError, RowSink, TableScan};
use crate::values::CommitHash;

/// When an export ends before its table does.
#[derive(Debug, Clone)]
pub struct ExportLimits {
    /// Time the engine may compute; waiting for the sink does not count.
    pub timeout: Duration,
    /// Says that nobody wants the rows any more.
    pub canceled: Canceled,
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
        limits: &ExportLimits,
        sink: &mut dyn RowSink,
    ) -> Result<(), ReadError> {
        let scan = TableScan { table, timeout: limits.timeout, canceled: limits.canceled.clone() };
        match self.0.ports.engine.scan(access.database().id, at, &scan, sink) {
            Err(EngineError::NoSuchTable(name)) => Err(ReadError::NoSuchTable(name)),
            Err(EngineError::TimedOut(ms)) => Err(ReadError::TimedOut(ms)),
            other => Ok(other?),
        }
    }
}
