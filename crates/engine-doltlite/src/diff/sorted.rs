//! Rows that differ, found by reading both sides in key order.

use std::cmp::Ordering;

use branchyard_domain::entities::{Cell, Change, RowChange};
use branchyard_domain::ports::{EngineError, RowPage};
use branchyard_domain::values::{CommitHash, DatabaseId};
use rusqlite::params_from_iter;

use super::rows::alone;
use super::side::{Row, Side};
use crate::cells::Param;
use crate::connection::Connection;
use crate::engine::DoltliteEngine;
use crate::sql::errors;

/// Reads both sides in key order and compares. For tables without a key the engine does not tell which row it means.
pub(super) fn side_by_side(
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
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
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
fn compare_keys(left: &Row, right: &Row) -> Ordering {
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
