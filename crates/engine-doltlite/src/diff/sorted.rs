//! Finds changed rows by reading both sides in key order.

use std::cmp::Ordering;

use branchyard_domain::entities::{Cell, Change, RowChange};
use branchyard_domain::ports::{ChangedRows, EngineError, RowPage};
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator;
use rusqlite::params_from_iter;
use rusqlite::types::ValueRef;

use super::ends::Comparison;
use super::rows::alone;
use super::side::{PageRoom, TableSide};
use crate::cells::Param;
use crate::connection::Connection;

/// Reads both sides in key order and compares them. Used where the engine's own comparison does not work, for example
/// for tables without a key, whose rows it does not identify.
pub(super) fn side_by_side(
    compared: &Comparison<'_>,
    (old, new): (&TableSide, &TableSide),
    page: &RowPage,
) -> Result<ChangedRows, EngineError> {
    if old.key != new.key {
        return rekeyed(compared, (old, new), page);
    }
    let Comparison { engine, from, to, timeout, .. } = *compared;
    compared.reading(from, |at_from| {
        let fault = |error| from.fault("read changed rows", error);
        // Both reads run at the same time; if one is cut short, the other ends too.
        let timed = at_from.limit_time(&engine.watchdog, timeout).map_err(fault)?;
        let changes =
            compared.reading_within(timeout, to, "read changed rows", |at_to| compare(at_from, at_to, old, new, page));
        match changes {
            Err(EngineError::Unavailable(_) | EngineError::Fault { .. }) if timed.expired() => {
                Err(timed.ended().unwrap_or(EngineError::Busy))
            }
            changes => changes,
        }
    })
}

/// Rows of tables with different keys cannot be matched: all rows of the old table are listed as removed, then all rows
/// of the new one as added.
fn rekeyed(
    compared: &Comparison<'_>,
    (old, new): (&TableSide, &TableSide),
    page: &RowPage,
) -> Result<ChangedRows, EngineError> {
    let Comparison { from, to, timeout, .. } = *compared;
    // The key of the previous page does not contain its side. The side follows from the length of the key, then from
    // whether the old table has such a row.
    let is_of = |side: &TableSide, end, after: &Vec<Cell>| {
        if after.len() != side.key_columns().len() {
            return Ok(false);
        }
        compared.reading_within(timeout, end, "find a row", |connection| side.has(connection, after))
    };
    let mut changes = ChangedRows::default();
    let in_removed = match &page.after {
        None => true,
        Some(after) => is_of(old, from, after)?,
    };
    if in_removed {
        let (removed, more) =
            compared.reading_within(timeout, from, "read changed rows", |connection| old.rows(connection, page))?;
        changes.rows = removed.into_iter().map(|(key, row)| alone(&new.name, Change::Removed, key, row)).collect();
        changes.more = more;
    }
    if changes.more {
        return Ok(changes);
    }
    let rest = RowPage {
        after: if in_removed { None } else { page.after.clone() },
        limit: page.limit - changes.rows.len().min(page.limit),
        bytes: page.bytes,
    };
    let (added, more) =
        compared.reading_within(timeout, to, "read changed rows", |connection| new.rows(connection, &rest))?;
    changes.rows.extend(added.into_iter().map(|(key, row)| alone(&new.name, Change::Added, key, row)));
    changes.more = more;
    Ok(changes)
}

fn compare(
    at_from: &Connection,
    at_to: &Connection,
    old: &TableSide,
    new: &TableSide,
    page: &RowPage,
) -> rusqlite::Result<ChangedRows> {
    let after = page.after.as_deref().unwrap_or_default();
    let mut from = at_from.spend(|| at_from.raw().prepare(&old.select(!after.is_empty(), None, true)))?;
    let mut to = at_to.spend(|| at_to.raw().prepare(&new.select(!after.is_empty(), None, true)))?;
    let mut from_rows = from.query(params_from_iter(after.iter().map(Param)))?;
    let mut to_rows = to.query(params_from_iter(after.iter().map(Param)))?;
    let width = old.order().len();
    let same_columns = old.columns == new.columns;
    at_from.spend(|| from_rows.advance())?;
    at_to.spend(|| to_rows.advance())?;
    let mut changes: Vec<RowChange> = Vec::new();
    let mut room = PageRoom::new(page);
    while room.is_left() {
        let (left, right) = (from_rows.get(), to_rows.get());
        let order = match (left, right) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(left), Some(right)) => compare_keys(left, right, width)?,
        };
        let (left, right) = (left.filter(|_| order.is_le()), right.filter(|_| order.is_ge()));
        let before = changes.len();
        match (left, right) {
            (Some(left), Some(right)) => {
                // Most rows are equal, and equal rows are not copied.
                if !(same_columns && same_values(left, right, width + old.columns.len())?) {
                    let ((key, from), (_, to)) = (old.split(left)?, new.split(right)?);
                    changes.push(RowChange {
                        table: new.name.clone(),
                        change: Change::Modified,
                        primary_key: key,
                        from: Some(from),
                        to: Some(to),
                    });
                }
            }
            (Some(left), None) => {
                let (key, row) = old.split(left)?;
                changes.push(alone(&new.name, Change::Removed, key, row));
            }
            (None, Some(right)) => {
                let (key, row) = new.split(right)?;
                changes.push(alone(&new.name, Change::Added, key, row));
            }
            (None, None) => break,
        }
        for change in &changes[before..] {
            room.take([&change.from, &change.to].into_iter().flatten().chain([&change.primary_key]));
        }
        if order.is_le() {
            at_from.spend(|| from_rows.advance())?;
        }
        if order.is_ge() {
            at_to.spend(|| to_rows.advance())?;
        }
    }
    Ok(ChangedRows { rows: changes, more: !room.is_left() })
}

fn same_values(left: &rusqlite::Row<'_>, right: &rusqlite::Row<'_>, width: usize) -> rusqlite::Result<bool> {
    for at in 0..width {
        if left.get_ref(at)? != right.get_ref(at)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Compares the first `width` values in the engine's order: NULL, numbers, text, blobs.
fn compare_keys(left: &rusqlite::Row<'_>, right: &rusqlite::Row<'_>, width: usize) -> rusqlite::Result<Ordering> {
    for at in 0..width {
        let order = compare_values(left.get_ref(at)?, right.get_ref(at)?);
        if order != Ordering::Equal {
            return Ok(order);
        }
    }
    Ok(Ordering::Equal)
}

fn compare_values(left: ValueRef<'_>, right: ValueRef<'_>) -> Ordering {
    let rank = |value: &ValueRef<'_>| match value {
        ValueRef::Null => 0,
        ValueRef::Integer(_) | ValueRef::Real(_) => 1,
        ValueRef::Text(_) => 2,
        ValueRef::Blob(_) => 3,
    };
    #[expect(
        clippy::cast_precision_loss,
        reason = "keys that differ only beyond 2^53 between integer and real do not occur in one column"
    )]
    let number = |value: ValueRef<'_>| match value {
        ValueRef::Integer(n) => n as f64,
        ValueRef::Real(x) => x,
        _ => 0.0,
    };
    match (left, right) {
        (ValueRef::Integer(left), ValueRef::Integer(right)) => left.cmp(&right),
        (ValueRef::Text(left), ValueRef::Text(right)) | (ValueRef::Blob(left), ValueRef::Blob(right)) => {
            left.cmp(right)
        }
        _ => rank(&left).cmp(&rank(&right)).then(number(left).total_cmp(&number(right))),
    }
}
