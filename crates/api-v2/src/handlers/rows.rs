//! Walking the rows that differ between two commits, table by table, with keys to go on from.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use branchyard_api_common::{Listed, Refusal};
use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Read};
use branchyard_domain::entities::Cell;
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::RowPage;
use branchyard_domain::values::CommitHash;
use serde::{Deserialize, Serialize};

use crate::wire;

/// Bytes of a row's key that a page token may hold; rows with longer ones are counted from the last shorter one.
const KEY_MAX_BYTES: usize = 2_000;

/// A cell of a key, exactly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum KeyCell {
    N,
    I(i64),
    R(u64),
    T(String),
    B(String),
}

impl From<&Cell> for KeyCell {
    fn from(cell: &Cell) -> Self {
        match cell {
            Cell::Null => Self::N,
            Cell::Integer(number) => Self::I(*number),
            Cell::Real(number) => Self::R(number.to_bits()),
            Cell::Text(bytes) => Self::T(STANDARD_NO_PAD.encode(bytes)),
            Cell::Blob(bytes) => Self::B(STANDARD_NO_PAD.encode(bytes)),
        }
    }
}

impl KeyCell {
    fn cell(&self) -> Option<Cell> {
        Some(match self {
            Self::N => Cell::Null,
            Self::I(number) => Cell::Integer(*number),
            Self::R(bits) => Cell::Real(f64::from_bits(*bits)),
            Self::T(text) => Cell::Text(STANDARD_NO_PAD.decode(text).ok()?),
            Self::B(text) => Cell::Blob(STANDARD_NO_PAD.decode(text).ok()?),
        })
    }
}

/// Bytes of values that one look at the engine brings; what is shown of them is cut.
const PAGE_BYTES: usize = 8 << 20;

/// Where a page of rows ends: after `skip` rows beyond the row with key `after` (or the first) of `table`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RowKey {
    pub(crate) table: String,
    after: Option<Vec<KeyCell>>,
    skip: usize,
}

/// The two commits of a difference, pinned for all pages, and where the page begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DiffKey<K> {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) at: K,
}

/// A changed row as it is shown, and the place after it.
pub(crate) struct WalkedRow {
    pub(crate) shown: wire::RowDiff,
    pub(crate) key: RowKey,
}

fn key_bytes(key: &[(String, Cell)]) -> usize {
    let bytes = key.iter().map(|(_, cell)| match cell {
        Cell::Null | Cell::Integer(_) | Cell::Real(_) => 24,
        Cell::Text(bytes) | Cell::Blob(bytes) => bytes.len() * 4 / 3 + 10,
    });
    bytes.sum()
}

/// At most `fetch` rows of `tables` (in their order), from `start` on; fewer when they hold a lot.
pub(crate) fn walk(
    hub: &Hub,
    access: &DatabaseAccess<Read>,
    (from, to): (&CommitHash, &CommitHash),
    tables: &[String],
    start: Option<&RowKey>,
    fetch: usize,
) -> Result<Listed<WalkedRow>, Refusal> {
    let mut rows = Vec::new();
    let begun = start.map(|key| key.table.as_str()).unwrap_or_default();
    for table in tables.iter().filter(|table| table.as_str() >= begun) {
        let mut place = match start {
            Some(key) if key.table == *table => key.clone(),
            _ => RowKey { table: table.clone(), after: None, skip: 0 },
        };
        let mut after = place.after.as_ref().and_then(|cells| cells.iter().map(KeyCell::cell).collect());
        // Rows that the token could only count.
        let mut passed = place.skip;
        loop {
            let limit = (fetch - rows.len()).saturating_add(passed);
            let page = RowPage { after, limit, bytes: PAGE_BYTES };
            let found = hub.history().changed_rows(access, from, to, table, &page)?;
            after = found.rows.last().map(|change| change.primary_key.iter().map(|(_, cell)| cell.clone()).collect());
            let given = found.rows.len();
            for change in found.rows.into_iter().skip(passed) {
                if key_bytes(&change.primary_key) <= KEY_MAX_BYTES {
                    place.after = Some(change.primary_key.iter().map(|(_, cell)| cell.into()).collect());
                    place.skip = 0;
                } else {
                    place.skip += 1;
                }
                rows.push(WalkedRow { shown: wire::RowDiff::from(&change), key: place.clone() });
            }
            passed = passed.saturating_sub(given);
            if !found.more || given == 0 {
                break;
            }
            if !rows.is_empty() {
                return Ok(Listed { items: rows, more: true });
            }
        }
        if rows.len() >= fetch {
            break;
        }
    }
    Ok(rows.into())
}

/// The tables of a difference: the one asked for, or all that changed.
pub(crate) fn tables(
    hub: &Hub,
    access: &DatabaseAccess<Read>,
    (from, to): (&CommitHash, &CommitHash),
    table: Option<&str>,
) -> Result<Vec<String>, Refusal> {
    if let Some(table) = table {
        return Ok(vec![table.to_owned()]);
    }
    let changed = hub.history().changed_tables(access, from, to)?;
    Ok(changed.into_iter().map(|change| change.table).collect())
}

/// The changed tables after `after`, or the one asked for.
pub(crate) fn changed_tables(
    hub: &Hub,
    access: &DatabaseAccess<Read>,
    (from, to): (&CommitHash, &CommitHash),
    table: Option<&str>,
    after: Option<&str>,
) -> Result<Vec<branchyard_domain::entities::TableChange>, Refusal> {
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

fn has_table(hub: &Hub, access: &DatabaseAccess<Read>, at: &CommitHash, name: &str) -> Result<bool, Refusal> {
    Ok(hub.history().tables(access, at)?.iter().any(|table| table.name == name))
}
