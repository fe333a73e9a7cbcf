//! Looking at a table: a page of rows, filtered and sorted, and how many there are.

use std::time::{Duration, Instant};

use super::Inner;
use crate::access::{DatabaseAccess, Level};
use crate::entities::TableSchema;
use crate::errors::{Fault, ReadError};
use crate::ports::{
    CancellationToken, Column, EngineError, Flow, RowSink, RowTest, Selected, Selection, SqlFailure, ValueRef,
};
use crate::values::{CommitHash, DatabaseId};

/// How looking at rows ended.
#[derive(Debug, Clone, PartialEq)]
pub enum LookEnd {
    /// All that were wanted, or as many as the sink took.
    Done(Selected),
    /// The statement of a view is to blame, or it took too long.
    Failed(SqlFailure),
}

/// How large a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSize {
    /// Its rows.
    pub rows: u64,
    /// Bytes of their values: texts and blobs as they are, numbers as eight bytes. Keys, indexes and history come on top.
    pub bytes: u64,
    /// Whether the bytes were told from the first and the last rows.
    pub is_estimate: bool,
}

/// Rows at either end of a table that are weighed.
const WEIGHED_ROWS: u64 = 64;

/// Bytes after which no more rows are weighed at that end.
const WEIGHED_BYTES: u64 = 1 << 20;

/// Weighs rows.
#[derive(Default)]
struct Scale {
    rows: u64,
    bytes: u64,
    /// Bytes of the end that is weighed now.
    heavy: u64,
}

impl RowSink for Scale {
    fn columns(&mut self, _: &[Column]) -> Flow {
        Flow::Continue
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> Flow {
        let weight = |value: &ValueRef<'_>| match value {
            ValueRef::Null => 0,
            ValueRef::Integer(_) | ValueRef::Real(_) => 8,
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len() as u64,
        };
        let bytes: u64 = row.iter().map(weight).sum();
        self.rows += 1;
        self.bytes += bytes;
        self.heavy += bytes;
        if self.heavy < WEIGHED_BYTES { Flow::Continue } else { Flow::Stop }
    }
}

/// Looking at tables.
pub struct Browse<'a>(&'a Inner);

impl<'a> Browse<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// The definition of a table or view, its name in any letter case.
    ///
    /// # Errors
    /// [`ReadError::NoSuchTable`].
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

    /// Rows of a table or view. A view is a statement of a stranger: what goes wrong in it is [`LookEnd::Failed`].
    ///
    /// # Errors
    /// [`ReadError::NoSuchTable`], [`ReadError::NoSuchColumn`].
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
            Err(other) => Err(Fault::from(other).into()),
        }
    }

    /// How many rows of a table or view pass the tests; `None` when counting takes longer than `patience`, or the view fails.
    ///
    /// # Errors
    /// [`ReadError::NoSuchTable`], [`ReadError::NoSuchColumn`].
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
        Ok(self.counted(access.database().id, at, table, tests, patience)?)
    }

    /// How large a table is; `None` when telling takes longer than `patience`.
    ///
    /// # Errors
    /// [`ReadError::Fault`].
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
                Err(other) => return Err(Fault::from(other).into()),
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
    ) -> Result<Option<u64>, Fault> {
        match self.0.ports.engine.count(database, at, table, tests, patience) {
            Ok(count) => Ok(Some(count)),
            Err(EngineError::Sql { .. }) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }
}

fn check_columns<'a>(schema: &TableSchema, mut names: impl Iterator<Item = &'a str>) -> Result<(), ReadError> {
    let known = |name: &str| schema.columns.iter().any(|column| column.name.eq_ignore_ascii_case(name));
    match names.find(|name| !known(name)) {
        Some(unknown) => Err(ReadError::NoSuchColumn(unknown.to_owned())),
        None => Ok(()),
    }
}
