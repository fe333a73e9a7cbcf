//! Table browsing: pages of filtered and sorted rows, row counts and sizes.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::Inner;
use crate::access::{DatabaseAccess, Level};
use crate::entities::{TableKind, TableSchema};
use crate::errors::{PortError, ReadError};
use crate::ports::{
    CancellationToken, Column, ColumnQuery, ColumnValues, EngineError, RowSink, RowTest, Selected, Selection,
    SqlFailure, ValueRef,
};
use crate::values::{CommitHash, DatabaseId};

/// The outcome of a row selection.
#[derive(Debug, Clone, PartialEq)]
pub enum LookEnd {
    /// The selection ended normally, after all wanted rows or when the sink stopped it.
    Done(Selected),
    /// The SQL of a view failed, or the selection timed out.
    Failed(SqlFailure),
}

/// The size of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSize {
    /// Number of rows.
    pub rows: u64,
    /// Bytes of the values: texts and blobs by their length, numbers as eight bytes. Keys, indexes and history are not
    /// included.
    pub bytes: u64,
    /// Whether `bytes` is extrapolated from the first and last rows.
    pub is_estimate: bool,
}

/// The values of a column.
#[derive(Debug, Clone, PartialEq)]
pub struct ValuesFound {
    /// The values.
    pub found: ColumnValues,
    /// Whether there may be more rows than those whose values were counted.
    pub is_sample: bool,
}

/// Number of rows measured at either end of a table.
const WEIGHED_ROWS: u64 = 64;

/// Bytes after which no further rows are measured at one end.
const WEIGHED_BYTES: u64 = 1 << 20;

/// A sink that counts rows and measures their bytes.
#[derive(Default)]
struct Scale {
    rows: u64,
    bytes: u64,
    /// Bytes measured at the current end of the table.
    heavy: u64,
}

impl RowSink for Scale {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        let weight = |value: &ValueRef<'_>| match value {
            ValueRef::Null => 0,
            ValueRef::Integer(_) | ValueRef::Real(_) => 8,
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len() as u64,
        };
        let bytes: u64 = row.iter().map(weight).sum();
        self.rows += 1;
        self.bytes += bytes;
        self.heavy += bytes;
        if self.heavy < WEIGHED_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// Use cases of table browsing.
pub struct Browse<'a>(&'a Inner);

impl<'a> Browse<'a> {
    /// Number of rows whose values are counted if counting those of all rows takes too long.
    pub const SAMPLE_ROWS: u64 = 5_000;

    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns the definition of a table or view. The name matches in any letter case.
    ///
    /// # Errors
    /// [`ReadError::NoSuchTable`] if there is no such table or view at the commit.
    pub fn table<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        at: &CommitHash,
        name: &str,
    ) -> Result<TableSchema, ReadError> {
        let tables = self.0.ports.engine.tables(access.database().id, at)?;
        let found = tables.into_iter().find(|table| table.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| ReadError::NoSuchTable(name.to_owned()))
    }

    /// Sends the selected rows of a table or view to `sink`. A view runs SQL written by users, so its failures are returned
    /// as [`LookEnd::Failed`] and not as an error.
    ///
    /// # Errors
    /// [`ReadError::NoSuchTable`]; [`ReadError::NoSuchColumn`] for an unknown column in the order or the tests.
    pub fn rows<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        at: &CommitHash,
        wanted: &Selection<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<LookEnd, ReadError> {
        let schema = self.table(access, at, wanted.table)?;
        let order = wanted.order.iter().map(|order| order.column);
        check_columns(&schema, order.chain(wanted.tests.iter().map(|test| test.column.as_str())))?;
        match self.0.ports.engine.rows(access.database().id, at, wanted, sink) {
            Ok(selected) => Ok(LookEnd::Done(selected)),
            Err(EngineError::Sql { failure, .. }) => Ok(LookEnd::Failed(failure)),
            Err(other) => Err(PortError::from(other).into()),
        }
    }

    /// Counts the rows of a table or view that pass the tests. Returns `None` if counting takes longer than `patience` or
    /// the view fails.
    ///
    /// # Errors
    /// [`ReadError::NoSuchTable`]; [`ReadError::NoSuchColumn`] for an unknown column in the tests.
    pub fn count<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        at: &CommitHash,
        table: &str,
        tests: &[RowTest],
        patience: Duration,
    ) -> Result<Option<u64>, ReadError> {
        let schema = self.table(access, at, table)?;
        check_columns(&schema, tests.iter().map(|test| test.column.as_str()))?;
        let database = access.database().id;
        // The query of a view may depend on the time, for example.
        if schema.kind == TableKind::View {
            return Ok(self.counted(database, at, table, tests, patience)?);
        }
        let known = &self.0.remembered.rows;
        let key = (database, at.clone(), Sha256::digest(format!("{} {tests:?}", schema.name)).into());
        if let Some(count) = known.known_fixed(&key) {
            return Ok(Some(count));
        }
        let count = self.counted(database, at, table, tests, patience)?;
        if let Some(count) = count {
            known.note_fixed(key, count);
        }
        Ok(count)
    }

    /// Returns the most frequent values of a column of the rows that pass the tests. If reading all rows takes longer than half of
    /// `patience`, the first [`Browse::SAMPLE_ROWS`] are read instead. Returns `None` if that takes too long as well, or the view
    /// fails.
    ///
    /// # Errors
    /// [`ReadError::NoSuchTable`]; [`ReadError::NoSuchColumn`] for an unknown column.
    pub fn column_values<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        at: &CommitHash,
        wanted: &ColumnQuery<'_>,
    ) -> Result<Option<ValuesFound>, ReadError> {
        let schema = self.table(access, at, wanted.table)?;
        let tested = wanted.tests.iter().map(|test| test.column.as_str());
        check_columns(&schema, tested.chain([wanted.column]))?;
        let half = wanted.timeout / 2;
        for rows in [wanted.rows, Self::SAMPLE_ROWS.min(wanted.rows)] {
            let query = ColumnQuery { rows, timeout: half, ..wanted.clone() };
            match self.0.ports.engine.column_values(access.database().id, at, &query) {
                Ok(found) => return Ok(Some(ValuesFound { is_sample: found.rows >= rows, found })),
                Err(EngineError::Sql { failure: SqlFailure::TimedOut(_), .. }) => {}
                Err(EngineError::Sql { .. }) => return Ok(None),
                Err(other) => return Err(PortError::from(other).into()),
            }
        }
        Ok(None)
    }

    /// Returns the size of a table, or `None` if measuring takes longer than `patience` or the view fails.
    ///
    /// # Errors
    /// [`ReadError::Port`].
    pub fn size<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        at: &CommitHash,
        table: &TableSchema,
        patience: Duration,
    ) -> Result<Option<TableSize>, ReadError> {
        let (database, began) = (access.database().id, Instant::now());
        let Some(rows) = self.counted(database, at, &table.name, &[], patience)? else { return Ok(None) };
        let mut scale = Scale::default();
        for backwards in [false, true] {
            let limit = WEIGHED_ROWS.min(rows.saturating_sub(scale.rows));
            if limit == 0 {
                break;
            }
            let wanted = Selection {
                table: &table.name,
                tests: &[],
                order: None,
                backwards,
                after: None,
                skip: 0,
                limit,
                timeout: patience.saturating_sub(began.elapsed()).max(Duration::from_millis(1)),
                canceled: CancellationToken::default(),
            };
            scale.heavy = 0;
            match self.0.ports.engine.rows(database, at, &wanted, &mut scale) {
                Ok(_) => {}
                Err(EngineError::Sql { .. }) => return Ok(None),
                Err(other) => return Err(PortError::from(other).into()),
            }
        }
        let is_estimate = scale.rows < rows;
        let bytes = match is_estimate {
            true => u128::from(scale.bytes) * u128::from(rows) / u128::from(scale.rows.max(1)),
            false => u128::from(scale.bytes),
        };
        Ok(Some(TableSize { rows, bytes: u64::try_from(bytes).unwrap_or(u64::MAX), is_estimate }))
    }

    fn counted(
        &self,
        database: DatabaseId,
        at: &CommitHash,
        table: &str,
        tests: &[RowTest],
        patience: Duration,
    ) -> Result<Option<u64>, PortError> {
        match self.0.ports.engine.count(database, at, table, tests, patience) {
            Ok(count) => Ok(Some(count)),
            Err(EngineError::Sql { .. }) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }
}

pub(super) fn check_columns<'a>(
    schema: &TableSchema,
    mut names: impl Iterator<Item = &'a str>,
) -> Result<(), ReadError> {
    let known = |name: &str| schema.columns.iter().any(|column| column.name.eq_ignore_ascii_case(name));
    match names.find(|name| !known(name)) {
        Some(unknown) => Err(ReadError::NoSuchColumn(unknown.to_owned())),
        None => Ok(()),
    }
}
