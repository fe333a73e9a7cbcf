//! Finds changed rows with the engine's own comparison.

use branchyard_domain::entities::{Cell, Change, RowChange};
use branchyard_domain::ports::{ChangedRows, EngineError, RowPage};
use branchyard_sqlite_lexer::{quote_name, quote_names};
use rusqlite::{OptionalExtension as _, params_from_iter};

use super::ends::{Comparison, DiffEnd};
use super::side::{PageRoom, TableSide, named};
use crate::cells::{self, NamedCells, Param};
use crate::connection::Connection;
use crate::schema;

/// Returns a page of changed rows. The engine's time depends on the amount of changes, not on the size of the table.
pub(super) fn by_engine(
    compared: &Comparison<'_>,
    (old, new): (&TableSide, &TableSide),
    page: &RowPage,
) -> Result<ChangedRows, EngineError> {
    // The engine shows both versions of a row with the columns of the commit that the connection is at.
    let Comparison { from, to, timeout, .. } = *compared;
    let half = |end, prefix: &str, side: &TableSide| {
        compared.reading_within(timeout, end, "read changed rows", |connection| {
            engine_rows(connection, (&from, &to), side, prefix, page)
        })
    };
    let (after, more_after) = half(to, "to_", new)?;
    let (before, more_before) = match to.is_open() {
        false => half(from, "from_", old)?,
        // Only its own connection compares an open transaction, and it shows no columns of a former definition.
        true if old.columns == new.columns => half(to, "from_", old)?,
        true => {
            let before = compared.reading_within(timeout, from, "read changed rows", |connection| {
                let of = |(key, change, _): &Half| -> rusqlite::Result<Half> {
                    Ok((key.clone(), *change, former(connection, old, key)?))
                };
                after.iter().map(of).collect()
            });
            (before?, false)
        }
    };
    // Only rows in both halves count: one half may have reached the byte limit of the page earlier.
    let rows = after.into_iter().zip(before).map(|((key, change, after), (_, _, before))| RowChange {
        table: new.name.clone(),
        change,
        primary_key: key,
        from: (change != Change::Added).then_some(before),
        to: (change != Change::Removed).then_some(after),
    });
    Ok(ChangedRows { rows: rows.collect(), more: more_after || more_before })
}

/// The key, the kind of change, and one of the two versions of a row.
type Half = (NamedCells, Change, NamedCells);

/// Returns the row with a key. Returns no cells if there is none.
fn former(connection: &Connection, side: &TableSide, key: &NamedCells) -> rusqlite::Result<NamedCells> {
    let same = side.order().iter().map(|column| format!("{column} IS ?")).collect::<Vec<_>>().join(" AND ");
    let columns = quote_names(side.columns.iter().map(String::as_str));
    let sql = format!("SELECT {columns} FROM {} WHERE {same}", quote_name(&side.name));
    let values = params_from_iter(key.iter().map(|(_, cell)| Param(cell)));
    let found = connection.spend_on_row(&sql, values, |row| named(&side.columns, row, 0)).optional()?;
    Ok(found.unwrap_or_default())
}

/// Returns the halves of a page. The second value is `true` if there may be more.
fn engine_rows(
    connection: &Connection,
    (from, to): (&DiffEnd<'_>, &DiffEnd<'_>),
    side: &TableSide,
    prefix: &str,
    page: &RowPage,
) -> rusqlite::Result<(Vec<Half>, bool)> {
    let key: Vec<String> = side
        .key
        .iter()
        .map(|name| {
            format!(
                "CASE diff_type WHEN 'removed' THEN {} ELSE {} END",
                quote_name(&format!("from_{name}")),
                quote_name(&format!("to_{name}"))
            )
        })
        .collect();
    let after = page.after.as_deref().unwrap_or_default();
    let condition = if after.is_empty() {
        String::new()
    } else {
        format!(" WHERE ({}) > ({})", key.join(", "), vec!["?"; key.len()].join(", "))
    };
    let columns: Vec<String> = side.columns.iter().map(|name| quote_name(&format!("{prefix}{name}"))).collect();
    let sql = format!(
        "SELECT diff_type, {}, {} FROM {}(?, ?){condition} ORDER BY {} LIMIT {}",
        key.join(", "),
        columns.join(", "),
        schema::history_table("dolt_diff_", &side.name),
        key.join(", "),
        page.limit
    );
    let mut statement = connection.spend(|| connection.raw().prepare(&sql))?;
    let commits = [Cell::Text(from.reference().into()), Cell::Text(to.reference().into())];
    let mut rows = statement.query(params_from_iter(commits.iter().chain(after).map(Param)))?;
    let mut found = Vec::new();
    let mut room = PageRoom::new(page);
    while room.is_left()
        && let Some(row) = connection.spend(|| rows.next())?
    {
        let change = match cells::text(row.get_ref(0)?).as_str() {
            "added" => Change::Added,
            "removed" => Change::Removed,
            _ => Change::Modified,
        };
        let (key, row) = (named(&side.key, row, 1)?, named(&side.columns, row, 1 + side.key.len())?);
        room.take([&key, &row]);
        found.push((key, change, row));
    }
    Ok((found, !room.is_left()))
}
