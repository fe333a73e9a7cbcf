//! Exports: whole tables at a commit, row by row.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Inner;
use super::browse::check_columns;
use crate::access::{DatabaseAccess, Level};
use crate::entities::{ObjectKind, SchemaObject, TableKind, TableSchema};
use crate::errors::{PortError, ReadError};
use crate::ports::{
    CancellationToken, EngineError, RowOrder, RowSink, RowTest, Selection, SqlFailure, SqliteExport, TableScan,
};
use crate::values::CommitHash;

/// Time limit of a statement that filters or sorts rows, or of the query of a view.
const STATEMENT: Duration = Duration::from_secs(60);

/// The rows of a table or view that are exported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportedRows {
    /// Name of the table or view, in any letter case.
    pub table: String,
    /// The conditions that rows have to satisfy.
    pub tests: Vec<RowTest>,
    /// The column that sorts the rows, and whether the order is descending. By default, rows are in the order of the key.
    pub order: Option<(String, bool)>,
}

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

    /// Returns the definition of a table or view. The name matches in any letter case.
    ///
    /// # Errors
    /// [`ReadError::NoSuchTable`].
    pub fn schema<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        at: &CommitHash,
        table: &str,
    ) -> Result<TableSchema, ReadError> {
        let tables = self.0.ports.engine.tables(access.database().id, at)?;
        let found = tables.into_iter().find(|one| one.name.eq_ignore_ascii_case(table));
        found.ok_or_else(|| ReadError::NoSuchTable(table.to_owned()))
    }

    /// Returns the definitions at a commit: the tables by name, then the indexes, views and triggers, in this order.
    ///
    /// # Errors
    /// [`ReadError::Port`].
    pub fn definitions<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        at: &CommitHash,
    ) -> Result<(Vec<TableSchema>, Vec<SchemaObject>), ReadError> {
        let (engine, database) = (&self.0.ports.engine, access.database().id);
        let mut tables = engine.tables(database, at)?;
        tables.retain(|table| table.kind == TableKind::Table);
        let mut objects = engine.objects(database, at)?;
        objects.sort_by_key(|object| match object.kind {
            ObjectKind::Index => 0,
            ObjectKind::View => 1,
            ObjectKind::Trigger => 2,
        });
        Ok((tables, objects))
    }

    /// Sends the wanted rows to `sink`. All rows of a table are read as [`Exports::table`] does; a statement for a view, or with
    /// conditions or an order, has one minute at most.
    ///
    /// # Errors
    /// [`ReadError::NoSuchTable`]; [`ReadError::NoSuchColumn`]; [`ReadError::Content`] if the query of a view fails;
    /// [`ReadError::TimedOut`].
    pub fn rows<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        at: &CommitHash,
        wanted: &ExportedRows,
        limits: &mut ExportLimits,
        sink: &mut dyn RowSink,
    ) -> Result<(), ReadError> {
        let schema = self.schema(access, at, &wanted.table)?;
        if schema.kind == TableKind::Table && wanted.tests.is_empty() && wanted.order.is_none() {
            return self.table(access, at, &schema.name, limits, sink);
        }
        let order = wanted.order.as_ref().map(|(column, descending)| RowOrder { column, descending: *descending });
        let named = order.iter().map(|order| order.column);
        check_columns(&schema, named.chain(wanted.tests.iter().map(|test| test.column.as_str())))?;
        if limits.left.is_zero() {
            return Err(limits.timed_out());
        }
        let (began, timeout) = (Instant::now(), limits.left.min(STATEMENT));
        let selection = Selection {
            table: &schema.name,
            tests: &wanted.tests,
            order,
            backwards: false,
            after: None,
            skip: 0,
            limit: u64::MAX,
            timeout,
            canceled: limits.canceled.clone(),
        };
        let ended = self.0.ports.engine.rows(access.database().id, at, &selection, sink);
        limits.left = limits.left.saturating_sub(began.elapsed().min(timeout));
        match ended {
            Ok(_) => Ok(()),
            Err(EngineError::Sql { failure: SqlFailure::TimedOut(millis), .. }) => Err(ReadError::TimedOut(millis)),
            Err(EngineError::Sql { failure, .. }) => Err(ReadError::Content(failure.to_string())),
            Err(other) => Err(PortError::from(other).into()),
        }
    }

    /// Writes the tables at a commit to the empty file `into`, as a SQLite 3 file of at most `max_bytes` without history.
    ///
    /// # Errors
    /// [`ReadError::Content`] if the file would be larger; [`ReadError::TimedOut`].
    pub fn sqlite<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        at: &CommitHash,
        into: &File,
        max_bytes: u64,
        limits: &ExportLimits,
    ) -> Result<(), ReadError> {
        let job = SqliteExport { max_bytes, timeout: limits.left, canceled: limits.canceled.clone() };
        match self.0.ports.engine.export_sqlite(access.database().id, at, into, &job) {
            Ok(()) => Ok(()),
            Err(EngineError::TimedOut(_)) => Err(limits.timed_out()),
            Err(EngineError::Sql { failure, .. }) => Err(ReadError::Content(failure.to_string())),
            Err(other) => Err(PortError::from(other).into()),
        }
    }

    /// Returns the folder in which files are made before they are sent. Fails while storage is low.
    ///
    /// # Errors
    /// [`PortError::StorageLow`].
    pub fn folder(&self) -> Result<PathBuf, ReadError> {
        if self.0.free_space.is_low() {
            return Err(PortError::StorageLow.into());
        }
        Ok(self.0.ports.engine.scratch_folder())
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
