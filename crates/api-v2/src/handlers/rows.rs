//! Pages of the rows that differ between two commits, table by table.

use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Read};
use branchyard_domain::errors::ReadError;
use branchyard_domain::values::CommitHash;
use branchyard_http_common::{ApiError, Listed, RowKey, changed_rows_from};
use serde::{Deserialize, Serialize};

use crate::wire;

/// The page key of a difference: the two commits, which all pages share, and the position at which the page begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DiffKey<K> {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) at: K,
}

/// A changed row in its wire form, and the key of the position after it.
pub(crate) struct WalkedRow {
    pub(crate) shown: wire::RowDiff,
    pub(crate) key: RowKey,
}

/// Returns at most `fetch` changed rows of `tables`, in the order of `tables`, beginning at `start`. Returns fewer rows if they
/// are large.
pub(crate) fn walk(
    hub: &Hub,
    access: &DatabaseAccess<Read>,
    ends: (&CommitHash, &CommitHash),
    tables: &[String],
    start: Option<&RowKey>,
    fetch: usize,
) -> Result<Listed<WalkedRow>, ApiError> {
    let mut rows = Vec::new();
    let begun = start.map(|key| key.table.as_str()).unwrap_or_default();
    for table in tables.iter().filter(|table| table.as_str() >= begun) {
        let place = match start {
            Some(key) if key.table == *table => key.clone(),
            _ => RowKey::before(table),
        };
        let found = changed_rows_from(hub, access, ends, &place, fetch - rows.len())?;
        let shown = |(change, key)| WalkedRow { shown: wire::RowDiff::from(&change), key };
        rows.extend(found.items.into_iter().map(shown));
        if found.more {
            return Ok(Listed { items: rows, more: true });
        }
        if rows.len() >= fetch {
            break;
        }
    }
    Ok(rows.into())
}

/// Returns the tables to compare: `table` if present, otherwise all tables that differ.
pub(crate) fn tables(
    hub: &Hub,
    access: &DatabaseAccess<Read>,
    (from, to): (&CommitHash, &CommitHash),
    table: Option<&str>,
) -> Result<Vec<String>, ApiError> {
    if let Some(table) = table {
        return Ok(vec![table.to_owned()]);
    }
    let changed = hub.history().changed_tables(access, from, to)?;
    Ok(changed.into_iter().map(|change| change.table).collect())
}

/// Returns the tables that differ and whose names sort after `after`, restricted to `table` if present.
pub(crate) fn changed_tables(
    hub: &Hub,
    access: &DatabaseAccess<Read>,
    (from, to): (&CommitHash, &CommitHash),
    table: Option<&str>,
    after: Option<&str>,
) -> Result<Vec<branchyard_domain::entities::TableChange>, ApiError> {
    let mut changed = hub.history().changed_tables(access, from, to)?;
    if let Some(table) = table {
        changed.retain(|change| change.table == table);
        if changed.is_empty() && !has_table(hub, access, from, table)? && !has_table(hub, access, to, table)? {
            return Err(ReadError::NoSuchTable(table.to_owned()).into());
        }
    }
    if let Some(after) = after {
        changed.retain(|change| change.table.as_str() > after);
    }
    Ok(changed)
}

fn has_table(hub: &Hub, access: &DatabaseAccess<Read>, at: &CommitHash, name: &str) -> Result<bool, ApiError> {
    Ok(hub.history().tables(access, at)?.iter().any(|table| table.name == name))
}
