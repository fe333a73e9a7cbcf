//! Differences between two commits.

use std::collections::BTreeSet;

use super::Result;
use super::table::{Key, Snapshot, StoredRow, Table};
use branchyard_domain::entities::{Change, RowChange, TableChange, object_changes};
use branchyard_domain::ports::{ChangedRows, EngineError, RowPage};

fn change<T>(from: Option<T>, to: Option<T>) -> Change {
    match (from.is_some(), to.is_some()) {
        (false, _) => Change::Added,
        (true, false) => Change::Removed,
        (true, true) => Change::Modified,
    }
}

/// Returns the keys of rows that differ, with both rows.
fn differing<'a>(from: Option<&'a Table>, to: Option<&'a Table>) -> Vec<(&'a Key, StoredRow<'a>, StoredRow<'a>)> {
    let keys: BTreeSet<&Key> = from.into_iter().chain(to).flat_map(|table| table.rows.keys()).collect();
    let row = |table: Option<&'a Table>, key: &Key| table.and_then(|table| table.rows.get(key));
    let both = keys.into_iter().map(|key| (key, row(from, key), row(to, key)));
    both.filter(|(_, from, to)| from != to).collect()
}

pub(super) fn tables(from: &Snapshot, to: &Snapshot) -> Vec<TableChange> {
    let names: BTreeSet<&String> = from.0.keys().chain(to.0.keys()).collect();
    let objects = object_changes(from.objects(), to.objects());
    let mut changes = Vec::new();
    for name in names {
        let (old, new) = (from.find(name), to.find(name));
        let Some(shown) = new.or(old).filter(|_| old != new) else { continue };
        let mut rows = (0, 0, 0);
        for (_, from, to) in differing(old, new) {
            match change(from, to) {
                Change::Added => rows.0 += 1,
                Change::Removed => rows.1 += 1,
                Change::Modified => rows.2 += 1,
            }
        }
        changes.push(TableChange {
            table: shown.definition.name.clone(),
            change: change(old, new),
            schema_changed: old.map(|table| &table.definition) != new.map(|table| &table.definition),
            rows: Some(rows),
            objects: objects
                .iter()
                .filter(|(owner, _)| owner.eq_ignore_ascii_case(name))
                .map(|(_, change)| change.clone())
                .collect(),
        });
    }
    changes
}

pub(super) fn rows(from: &Snapshot, to: &Snapshot, table: &str, page: &RowPage) -> Result<ChangedRows> {
    let (old, new) = (from.find(table), to.find(table));
    let Some(shown) = new.or(old) else { return Err(EngineError::NoSuchTable(table.to_owned())) };
    let after = page.after.clone().map(Key);
    let later = differing(old, new).into_iter().filter(|(key, ..)| after.as_ref().is_none_or(|after| *key > after));
    let mut told = later.map(|(key, before, now)| RowChange {
        table: shown.definition.name.clone(),
        change: change(before, now),
        primary_key: shown.named_key(key),
        from: before.and_then(|row| old.map(|table| table.named(row))),
        to: now.and_then(|row| new.map(|table| table.named(row))),
    });
    let mut rows: Vec<RowChange> = Vec::new();
    let mut bytes = 0;
    while rows.len() < page.limit && (rows.is_empty() || bytes < page.bytes) {
        let Some(row) = told.next() else { break };
        let cells = [&row.from, &row.to].into_iter().flatten().flatten().chain(&row.primary_key);
        bytes += cells.map(|(_, cell)| cell.bytes()).sum::<usize>();
        rows.push(row);
    }
    Ok(ChangedRows { rows, more: told.next().is_some() })
}
