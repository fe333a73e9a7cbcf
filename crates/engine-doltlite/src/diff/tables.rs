//! Which tables differ, and by how many rows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use branchyard_domain::entities::{Change, TableChange, TableKind, TableSchema};
use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, DatabaseId};

use crate::cells;
use crate::connection::Connection;
use crate::engine::DoltliteEngine;
use crate::schema;
use crate::sql::{errors, quote};

pub(crate) fn changed_tables(
    engine: &DoltliteEngine,
    database: DatabaseId,
    from: &CommitHash,
    to: &CommitHash,
) -> Result<Vec<TableChange>, EngineError> {
    let began = Instant::now();
    let before = engine.reading(database, from, |connection| snapshot(connection, from))?;
    engine.reading(database, to, |connection| {
        let after = snapshot(connection, to)?;
        let touched = touched(connection, from, to).map_err(|error| errors::fault_at("compare commits", to, error))?;
        let mut changes = BTreeMap::new();
        for (name, old) in &before {
            match after.get(name) {
                None => {
                    changes.insert(name, (Change::Removed, true));
                }
                Some(new) if old != new => {
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
        let mut listed = Vec::with_capacity(changes.len());
        for (name, (change, schema_changed)) in changes {
            let old = before.get(name).filter(|table| table.kind == TableKind::Table);
            let new = after.get(name).filter(|table| table.kind == TableKind::Table);
            let rows = count(engine, database, connection, (from, to), (old, new), touched.contains(name), began)?;
            listed.push(TableChange { table: name.clone(), change, schema_changed, rows });
        }
        Ok(listed)
    })
}

fn snapshot(connection: &Connection, at: &CommitHash) -> Result<BTreeMap<String, TableSchema>, EngineError> {
    let tables = schema::tables(connection).map_err(|error| errors::fault_at("read the definitions", at, error))?;
    Ok(tables.into_iter().map(|table| (table.name.clone(), table)).collect())
}

/// Names of tables whose rows the engine says differ.
fn touched(connection: &Connection, from: &CommitHash, to: &CommitHash) -> rusqlite::Result<BTreeSet<String>> {
    let mut statement = connection.raw().prepare_cached(
        "SELECT coalesce(from_table_name, ''), coalesce(to_table_name, '') FROM dolt_diff_summary(?, ?) WHERE data_change OR diff_type = 'renamed'",
    )?;
    let mut rows = statement.query([from.as_str(), to.as_str()])?;
    let mut names = BTreeSet::new();
    while let Some(row) = rows.next()? {
        names.insert(row.get(0)?);
        names.insert(row.get(1)?);
    }
    Ok(names)
}

/// Rows added, removed and modified.
fn count(
    engine: &DoltliteEngine,
    database: DatabaseId,
    at_to: &Connection,
    (from, to): (&CommitHash, &CommitHash),
    sides: (Option<&TableSchema>, Option<&TableSchema>),
    touched: bool,
    began: Instant,
) -> Result<Option<(u64, u64, u64)>, EngineError> {
    let Some(left) = engine.options.count_timeout.checked_sub(began.elapsed()) else { return Ok(None) };
    let total = |connection: &Connection, table: &TableSchema| -> rusqlite::Result<u64> {
        connection
            .raw()
            .query_row(&format!("SELECT count(*) FROM {}", quote::name(&table.name)), [], |row| cells::count(row, 0))
    };
    let removed = |table: &TableSchema| {
        engine.reading(database, from, |connection| {
            total(connection, table).map_err(|error| errors::fault_at("count rows", from, error))
        })
    };
    let fault = |error| errors::fault_at("count rows", to, error);
    let (old, new) = match sides {
        (None, None) => return Ok(Some((0, 0, 0))),
        (None, Some(new)) => return Ok(Some((total(at_to, new).map_err(fault)?, 0, 0))),
        (Some(old), None) => return Ok(Some((0, removed(old)?, 0))),
        (Some(old), Some(new)) => (old, new),
    };
    if old.primary_key != new.primary_key {
        return Ok(Some((total(at_to, new).map_err(fault)?, removed(old)?, 0)));
    }
    if !touched && old == new {
        return Ok(Some((0, 0, 0)));
    }
    let timed = at_to.limit_time(&engine.watchdog, left).map_err(fault)?;
    let stat = || -> rusqlite::Result<Option<(u64, u64, u64)>> {
        let mut statement = at_to
            .raw()
            .prepare_cached("SELECT rows_added, rows_deleted, rows_modified FROM dolt_diff_stat(?, ?, ?)")?;
        let mut rows = statement.query([from.as_str(), to.as_str(), &new.name])?;
        match rows.next()? {
            Some(row) => Ok(Some((cells::count(row, 0)?, cells::count(row, 1)?, cells::count(row, 2)?))),
            None => Ok(Some((0, 0, 0))),
        }
    };
    match stat() {
        Err(error) if errors::interrupted(&error) && timed.expired() => Ok(None),
        other => other.map_err(fault),
    }
}
