//! What differs between two commits.
//!
//! Tables are matched by name. The engine's own matching takes a table that was dropped and another that was made for one that was
//! renamed, when they look alike (`engine-notes.md` §7.6).

use std::collections::BTreeMap;
use std::time::Instant;

use branchyard_domain::entities::{Cell, Change, RowChange, TableChange, TableKind, TableSchema};
use branchyard_domain::ports::{EngineError, RowPage};
use branchyard_domain::values::{CommitHash, DatabaseId};
use rusqlite::params_from_iter;

use crate::cells::{self, Param};
use crate::connection::Connection;
use crate::engine::DoltliteEngine;
use crate::schema;
use crate::sql::{errors, quote};

type Row = Vec<(String, Cell)>;

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
fn touched(
    connection: &Connection,
    from: &CommitHash,
    to: &CommitHash,
) -> rusqlite::Result<std::collections::BTreeSet<String>> {
    let mut statement = connection.raw().prepare_cached(
        "SELECT coalesce(from_table_name, ''), coalesce(to_table_name, '') FROM dolt_diff_summary(?, ?) WHERE data_change OR diff_type = 'renamed'",
    )?;
    let mut rows = statement.query([from.as_str(), to.as_str()])?;
    let mut names = std::collections::BTreeSet::new();
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

pub(crate) fn changed_rows(
    engine: &DoltliteEngine,
    database: DatabaseId,
    (from, to): (&CommitHash, &CommitHash),
    table: &str,
    page: &RowPage,
) -> Result<Vec<RowChange>, EngineError> {
    let side = |at: &CommitHash| {
        engine.reading(database, at, |connection| {
            Side::find(connection, table).map_err(|error| errors::fault_at("find a table", at, error))
        })
    };
    let (old, new) = (side(from)?, side(to)?);
    let rows_of = |at: &CommitHash, side: &Side, change: Change| {
        engine.reading(database, at, |connection| {
            let rows = side.rows(connection, page).map_err(|error| errors::fault_at("read changed rows", at, error))?;
            Ok(rows.into_iter().map(|(key, row)| alone(&side.name, change, key, row)).collect::<Vec<_>>())
        })
    };
    match (old, new) {
        (None, None) => Err(EngineError::NoSuchTable(table.to_owned())),
        (None, Some(new)) => rows_of(to, &new, Change::Added),
        (Some(old), None) => rows_of(from, &old, Change::Removed),
        (Some(old), Some(new)) if old.is_view || new.is_view => {
            let mut changes = Vec::new();
            if !old.is_view {
                changes = rows_of(from, &old, Change::Removed)?;
            }
            if !new.is_view {
                changes = rows_of(to, &new, Change::Added)?;
            }
            Ok(changes)
        }
        (Some(old), Some(new)) if old.key.is_empty() || old.key != new.key || old.columns.len() > MOST_COLUMNS => {
            side_by_side(engine, database, (from, to), (&old, &new), page)
        }
        (Some(old), Some(new)) => by_engine(engine, database, (from, to), (&old, &new), page),
    }
}

/// With more columns the engine's own comparison fails (`engine-notes.md` §3.4).
const MOST_COLUMNS: usize = 990;

fn alone(table: &str, change: Change, primary_key: Row, row: Row) -> RowChange {
    let (from, to) = if change == Change::Added { (None, Some(row)) } else { (Some(row), None) };
    RowChange { table: table.to_owned(), change, primary_key, from, to }
}

/// A table at one commit.
struct Side {
    name: String,
    is_view: bool,
    columns: Vec<String>,
    key: Vec<String>,
}

impl Side {
    fn find(connection: &Connection, table: &str) -> rusqlite::Result<Option<Self>> {
        let Some((name, kind)) = schema::find(connection, table)? else { return Ok(None) };
        if kind == TableKind::View {
            return Ok(Some(Self { name, is_view: true, columns: Vec::new(), key: Vec::new() }));
        }
        let columns = schema::columns(connection, &name)?;
        let key = schema::key_names(&columns);
        Ok(Some(Self { name, is_view: false, columns: columns.into_iter().map(|column| column.0.name).collect(), key }))
    }

    /// What rows are ordered and found by.
    fn order(&self) -> Vec<String> {
        if self.key.is_empty() {
            vec!["rowid".to_owned()]
        } else {
            self.key.iter().map(|name| quote::name(name)).collect()
        }
    }

    fn key_columns(&self) -> Vec<String> {
        if self.key.is_empty() { vec!["rowid".to_owned()] } else { self.key.clone() }
    }

    /// The SQL of all rows after a key, in key order: the key first, then the columns.
    fn select(&self, after: bool, limit: Option<usize>) -> String {
        let order = self.order();
        // Without collation and affinity, so that this is the one order everywhere.
        let plain: Vec<String> = order.iter().map(|column| format!("+{column} COLLATE BINARY")).collect();
        let condition = if after {
            let marks = vec!["?"; order.len()].join(", ");
            format!(" WHERE ({}) > ({marks})", plain.join(", "))
        } else {
            String::new()
        };
        let limit = limit.map(|limit| format!(" LIMIT {limit}")).unwrap_or_default();
        format!(
            "SELECT {}, {} FROM {}{condition} ORDER BY {}{limit}",
            order.join(", "),
            quote::names(self.columns.iter().map(String::as_str)),
            quote::name(&self.name),
            plain.join(", "),
        )
    }

    fn split(&self, row: &rusqlite::Row<'_>) -> rusqlite::Result<(Row, Row)> {
        let names = self.key_columns();
        let width = names.len();
        let key = named(&names, row, 0)?;
        Ok((key, named(&self.columns, row, width)?))
    }

    fn rows(&self, connection: &Connection, page: &RowPage) -> rusqlite::Result<Vec<(Row, Row)>> {
        if self.is_view {
            return Ok(Vec::new());
        }
        let after = page.after.as_deref().unwrap_or_default();
        let mut statement = connection.raw().prepare(&self.select(!after.is_empty(), Some(page.limit)))?;
        let mut rows = statement.query(params_from_iter(after.iter().map(Param)))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(self.split(row)?);
        }
        Ok(found)
    }
}

fn named(names: &[String], row: &rusqlite::Row<'_>, from: usize) -> rusqlite::Result<Row> {
    names.iter().enumerate().map(|(at, name)| Ok((name.clone(), cells::cell(row.get_ref(from + at)?)))).collect()
}

/// Asks the engine, whose time depends on what changed, not on what there is.
fn by_engine(
    engine: &DoltliteEngine,
    database: DatabaseId,
    (from, to): (&CommitHash, &CommitHash),
    (old, new): (&Side, &Side),
    page: &RowPage,
) -> Result<Vec<RowChange>, EngineError> {
    // The engine shows both rows with the columns of the commit the connection is at.
    let half = |at: &CommitHash, prefix: &str, side: &Side| {
        engine.reading(database, at, |connection| {
            engine_rows(connection, (from, to), side, prefix, page)
                .map_err(|error| errors::fault_at("read changed rows", at, error))
        })
    };
    let after = half(to, "to_", new)?;
    let before = half(from, "from_", old)?;
    let changes = after.into_iter().zip(before).map(|((key, change, after), (_, _, before))| RowChange {
        table: new.name.clone(),
        change,
        primary_key: key,
        from: (change != Change::Added).then_some(before),
        to: (change != Change::Removed).then_some(after),
    });
    Ok(changes.collect())
}

fn engine_rows(
    connection: &Connection,
    (from, to): (&CommitHash, &CommitHash),
    side: &Side,
    prefix: &str,
    page: &RowPage,
) -> rusqlite::Result<Vec<(Row, Change, Row)>> {
    let key: Vec<String> = side
        .key
        .iter()
        .map(|name| {
            format!(
                "CASE diff_type WHEN 'removed' THEN {} ELSE {} END",
                quote::name(&format!("from_{name}")),
                quote::name(&format!("to_{name}"))
            )
        })
        .collect();
    let after = page.after.as_deref().unwrap_or_default();
    let condition = if after.is_empty() {
        String::new()
    } else {
        format!(" WHERE ({}) > ({})", key.join(", "), vec!["?"; key.len()].join(", "))
    };
    let columns: Vec<String> = side.columns.iter().map(|name| quote::name(&format!("{prefix}{name}"))).collect();
    let sql = format!(
        "SELECT diff_type, {}, {} FROM {}(?, ?){condition} ORDER BY {} LIMIT {}",
        key.join(", "),
        columns.join(", "),
        schema::history_table("dolt_diff_", &side.name),
        key.join(", "),
        page.limit
    );
    let mut statement = connection.raw().prepare(&sql)?;
    let commits = [Cell::Text(from.as_str().into()), Cell::Text(to.as_str().into())];
    let mut rows = statement.query(params_from_iter(commits.iter().chain(after).map(Param)))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let change = match cells::text(row.get_ref(0)?).as_str() {
            "added" => Change::Added,
            "removed" => Change::Removed,
            _ => Change::Modified,
        };
        found.push((named(&side.key, row, 1)?, change, named(&side.columns, row, 1 + side.key.len())?));
    }
    Ok(found)
}

/// Reads both sides in key order and compares. For tables without a key the engine does not tell which row it means.
fn side_by_side(
    engine: &DoltliteEngine,
    database: DatabaseId,
    (from, to): (&CommitHash, &CommitHash),
    (old, new): (&Side, &Side),
    page: &RowPage,
) -> Result<Vec<RowChange>, EngineError> {
    if old.key != new.key {
        return rekeyed(engine, database, (from, to), (old, new), page);
    }
    engine.reading(database, from, |at_from| {
        engine.reading(database, to, |at_to| {
            compare(at_from, at_to, old, new, page).map_err(|error| errors::fault_at("read changed rows", to, error))
        })
    })
}

/// Rows of tables with different keys have nothing to do with each other: first all removed, then all added.
fn rekeyed(
    engine: &DoltliteEngine,
    database: DatabaseId,
    (from, to): (&CommitHash, &CommitHash),
    (old, new): (&Side, &Side),
    page: &RowPage,
) -> Result<Vec<RowChange>, EngineError> {
    // A key of the page before does not say which side it is of, so its length and then its being there do.
    let is_of = |side: &Side, at: &CommitHash, after: &Vec<Cell>| {
        if after.len() != side.key_columns().len() {
            return Ok(false);
        }
        engine.reading(database, at, |connection| {
            side.has(connection, after).map_err(|error| errors::fault_at("find a row", at, error))
        })
    };
    let mut changes = Vec::new();
    let in_removed = match &page.after {
        None => true,
        Some(after) => is_of(old, from, after)?,
    };
    if in_removed {
        changes = engine
            .reading(database, from, |connection| {
                old.rows(connection, page).map_err(|error| errors::fault_at("read changed rows", from, error))
            })?
            .into_iter()
            .map(|(key, row)| alone(&new.name, Change::Removed, key, row))
            .collect();
    }
    let rest = RowPage {
        after: if in_removed { None } else { page.after.clone() },
        limit: page.limit - changes.len().min(page.limit),
    };
    if rest.limit > 0 {
        let added = engine.reading(database, to, |connection| {
            new.rows(connection, &rest).map_err(|error| errors::fault_at("read changed rows", to, error))
        })?;
        changes.extend(added.into_iter().map(|(key, row)| alone(&new.name, Change::Added, key, row)));
    }
    Ok(changes)
}

impl Side {
    fn has(&self, connection: &Connection, key: &[Cell]) -> rusqlite::Result<bool> {
        let same = self.order().iter().map(|column| format!("{column} IS ?")).collect::<Vec<_>>().join(" AND ");
        let sql = format!("SELECT 1 FROM {} WHERE {same}", quote::name(&self.name));
        connection.raw().prepare(&sql)?.exists(params_from_iter(key.iter().map(Param)))
    }
}

fn compare(
    at_from: &Connection,
    at_to: &Connection,
    old: &Side,
    new: &Side,
    page: &RowPage,
) -> rusqlite::Result<Vec<RowChange>> {
    let after = page.after.as_deref().unwrap_or_default();
    let mut from = at_from.raw().prepare(&old.select(!after.is_empty(), None))?;
    let mut to = at_to.raw().prepare(&new.select(!after.is_empty(), None))?;
    let mut from_rows = from.query(params_from_iter(after.iter().map(Param)))?;
    let mut to_rows = to.query(params_from_iter(after.iter().map(Param)))?;
    let next = |side: &Side, rows: &mut rusqlite::Rows<'_>| -> rusqlite::Result<Option<(Row, Row)>> {
        rows.next()?.map(|row| side.split(row)).transpose()
    };
    let (mut left, mut right) = (next(old, &mut from_rows)?, next(new, &mut to_rows)?);
    let mut changes = Vec::new();
    while changes.len() < page.limit {
        let order = match (&left, &right) {
            (None, None) => break,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(left), Some(right)) => compare_keys(&left.0, &right.0),
        };
        let before = if order.is_le() { std::mem::replace(&mut left, next(old, &mut from_rows)?) } else { None };
        let now = if order.is_ge() { std::mem::replace(&mut right, next(new, &mut to_rows)?) } else { None };
        match (before, now) {
            (Some((key, before)), Some((_, now))) if before != now => changes.push(RowChange {
                table: new.name.clone(),
                change: Change::Modified,
                primary_key: key,
                from: Some(before),
                to: Some(now),
            }),
            (Some((key, row)), None) => changes.push(alone(&new.name, Change::Removed, key, row)),
            (None, Some((key, row))) => changes.push(alone(&new.name, Change::Added, key, row)),
            _ => {}
        }
    }
    Ok(changes)
}

/// The engine's order of values: NULL, numbers, text, blobs.
fn compare_keys(left: &Row, right: &Row) -> std::cmp::Ordering {
    use std::cmp::Ordering;
    let rank = |cell: &Cell| match cell {
        Cell::Null => 0,
        Cell::Integer(_) | Cell::Real(_) => 1,
        Cell::Text(_) => 2,
        Cell::Blob(_) => 3,
    };
    #[expect(
        clippy::cast_precision_loss,
        reason = "keys that differ only beyond 2^53 between integer and real do not occur in one column"
    )]
    let number = |cell: &Cell| match cell {
        Cell::Integer(n) => *n as f64,
        Cell::Real(x) => *x,
        _ => 0.0,
    };
    let cells = left.iter().map(|cell| &cell.1).zip(right.iter().map(|cell| &cell.1));
    cells
        .map(|(left, right)| match (left, right) {
            (Cell::Integer(left), Cell::Integer(right)) => left.cmp(right),
            (Cell::Text(left), Cell::Text(right)) | (Cell::Blob(left), Cell::Blob(right)) => left.cmp(right),
            _ if rank(left) != rank(right) => rank(left).cmp(&rank(right)),
            _ => number(left).total_cmp(&number(right)),
        })
        .find(|order| *order != Ordering::Equal)
        .unwrap_or(Ordering::Equal)
}
