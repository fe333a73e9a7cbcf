//! Finds the changed tables, and counts their changed rows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use branchyard_domain::entities::{
    Change, ObjectChange, SchemaObject, TableChange, TableKind, TableSchema, object_changes,
};
use branchyard_domain::ports::EngineError;
use branchyard_sqlite_lexer::quote_name;

use super::ends::{Comparison, DiffEnd};
use crate::cells;
use crate::connection::Connection;
use crate::schema;
use crate::sql::errors;

pub(crate) fn changed_tables(compared: &Comparison<'_>) -> Result<Vec<TableChange>, EngineError> {
    let began = Instant::now();
    let Comparison { from, to, timeout, .. } = *compared;
    let snapshot = |end| compared.reading_within(timeout, end, "read the definitions", definitions);
    let ((before, old_objects), (after, new_objects)) = (snapshot(from)?, snapshot(to)?);
    let mut objects: BTreeMap<String, Vec<ObjectChange>> = BTreeMap::new();
    for (owner, change) in object_changes(old_objects, new_objects) {
        objects.entry(owner).or_default().push(change);
    }
    let touched =
        compared.reading_within(timeout, to, "compare commits", |connection| touched(connection, &from, &to))?;
    compared.reading(to, |connection| {
        let mut changes = BTreeMap::new();
        for (name, old) in &before {
            match after.get(name) {
                None => {
                    changes.insert(name, (Change::Removed, true));
                }
                Some(new) if old != new || objects.contains_key(name) => {
                    changes.insert(name, (Change::Modified, true));
                }
                Some(_) if touched.contains(name) => {
                    changes.insert(name, (Change::Modified, false));
                }
                Some(_) => {}
            }
        }
        for name in after.keys().filter(|name| !before.contains_key(*name)) {
            changes.insert(name, (Change::Added, true));
        }
        // A trigger on a table that is not listed itself still needs an entry.
        for owner in objects.keys() {
            changes.entry(owner).or_insert((Change::Modified, true));
        }
        let mut listed = Vec::with_capacity(changes.len());
        for (name, (change, schema_changed)) in changes {
            let old = before.get(name).filter(|table| table.kind == TableKind::Table);
            let new = after.get(name).filter(|table| table.kind == TableKind::Table);
            let rows = count(compared, connection, (old, new), touched.contains(name), began)?;
            let objects = objects.get(name).cloned().unwrap_or_default();
            listed.push(TableChange { table: name.clone(), change, schema_changed, rows, objects });
        }
        Ok(listed)
    })
}

impl Comparison<'_> {
    /// Returns the definitions of all tables and views on both sides, by name.
    pub(crate) fn definitions(&self) -> Result<(TablesByName, TablesByName), EngineError> {
        // A view may name a commit whose columns are hidden.
        let scope = match self.from {
            DiffEnd::Commit(from) => self.engine.scope(self.database, from),
            DiffEnd::Open(_) => None,
        };
        let tables = |end| -> Result<TablesByName, EngineError> {
            let mut tables = self.reading_within(self.timeout, end, "read the definitions", schema::tables)?;
            if let Some(scope) = &scope {
                schema::hide_columns(&mut tables, |sql| scope.unknown_within(sql).is_some());
            }
            Ok(tables.into_iter().map(|table| (table.name.clone(), table)).collect())
        };
        Ok((tables(self.from)?, tables(self.to)?))
    }
}

/// Tables and views by name.
type TablesByName = BTreeMap<String, TableSchema>;

/// Tables and views by name, and all schema objects.
type SchemaDefinitions = (TablesByName, Vec<SchemaObject>);

fn definitions(connection: &Connection) -> rusqlite::Result<SchemaDefinitions> {
    let tables = schema::tables(connection)?.into_iter().map(|table| (table.name.clone(), table)).collect();
    Ok((tables, schema::objects(connection)?))
}

/// Returns the names of tables whose rows differ according to the engine.
fn touched(connection: &Connection, from: &DiffEnd<'_>, to: &DiffEnd<'_>) -> rusqlite::Result<BTreeSet<String>> {
    let mut statement = connection.raw().prepare_cached(
        "SELECT coalesce(from_table_name, ''), coalesce(to_table_name, '') FROM dolt_diff_summary(?, ?) WHERE data_change OR diff_type = 'renamed'",
    )?;
    let mut rows = statement.query([from.reference(), to.reference()])?;
    let mut names = BTreeSet::new();
    while let Some(row) = connection.spend(|| rows.next())? {
        names.insert(row.get(0)?);
        names.insert(row.get(1)?);
    }
    Ok(names)
}

/// Counts the added, removed and modified rows. Returns `None` if the count takes too much time or memory.
fn count(
    compared: &Comparison<'_>,
    at_to: &Connection,
    sides: (Option<&TableSchema>, Option<&TableSchema>),
    touched: bool,
    began: Instant,
) -> Result<Option<(u64, u64, u64)>, EngineError> {
    let Comparison { engine, from, to, .. } = *compared;
    let Some(left) = compared.count_timeout.checked_sub(began.elapsed()) else { return Ok(None) };
    let total = |connection: &Connection, table: &TableSchema| -> rusqlite::Result<u64> {
        let sql = format!("SELECT count(*) FROM {}", quote_name(&table.name));
        connection.spend_on_row(&sql, [], |row| cells::count(row, 0))
    };
    let removed =
        |table: &TableSchema| compared.reading_within(left, from, "count rows", |at_from| total(at_from, table));
    let fault = |error| to.fault("count rows", error);
    let timed = at_to.limit_time(&engine.watchdog, left).map_err(fault)?;
    let explain = |error| match errors::cut_short(&error) {
        true => timed.ended().unwrap_or_else(|| fault(error)),
        false => fault(error),
    };
    let added = |table: &TableSchema| total(at_to, table).map_err(explain);
    // A count that takes too much time or memory is left out.
    let counted = |counts: Result<(u64, u64, u64), EngineError>| match counts {
        Err(EngineError::TimedOut(_)) => Ok(None),
        Err(_) if timed.memory().exceeded().is_some() => Ok(None),
        counts => counts.map(Some),
    };
    let (old, new) = match sides {
        (None, None) => return Ok(Some((0, 0, 0))),
        (None, Some(new)) => return counted(added(new).map(|added| (added, 0, 0))),
        (Some(old), None) => return counted(removed(old).map(|removed| (0, removed, 0))),
        (Some(old), Some(new)) => (old, new),
    };
    if old.primary_key != new.primary_key {
        return counted(added(new).and_then(|added| Ok((added, removed(old)?, 0))));
    }
    // Indexes and triggers change no row.
    if !touched && (&old.columns, &old.create_statement) == (&new.columns, &new.create_statement) {
        return Ok(Some((0, 0, 0)));
    }
    let stat = || -> rusqlite::Result<(u64, u64, u64)> {
        let mut statement = at_to
            .raw()
            .prepare_cached("SELECT rows_added, rows_deleted, rows_modified FROM dolt_diff_stat(?, ?, ?)")?;
        let mut rows = statement.query([from.reference(), to.reference(), &new.name])?;
        match at_to.spend(|| rows.next())? {
            Some(row) => Ok((cells::count(row, 0)?, cells::count(row, 1)?, cells::count(row, 2)?)),
            None => Ok((0, 0, 0)),
        }
    };
    counted(stat().map_err(explain))
}
