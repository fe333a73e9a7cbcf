//! Looking at a table: a page of rows, filtered and sorted, and how many there are.

use std::time::Duration;

use super::Inner;
use crate::access::{DatabaseAccess, Level};
use crate::entities::TableSchema;
use crate::errors::{Fault, ReadError};
use crate::ports::{EngineError, RowSink, RowTest, Selected, Selection, SqlFailure};
use crate::values::CommitHash;

/// How looking at rows ended.
#[derive(Debug, Clone, PartialEq)]
pub enum LookEnd {
    /// All that were wanted, or as many as the sink took.
    Done(Selected),
    /// The statement of a view is to blame, or it took too long.
    Failed(SqlFailure),
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
        match self.0.ports.engine.count(access.database().id, at, table, tests, patience) {
            Ok(count) => Ok(Some(count)),
            Err(EngineError::Sql { .. }) => Ok(None),
            Err(other) => Err(Fault::from(other).into()),
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
