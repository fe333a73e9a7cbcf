//! Finds changed rows with the engine's own comparison.

use branchyard_domain::entities::{Cell, Change, RowChange};
use branchyard_domain::ports::{ChangedRows, EngineError, RowPage};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_sqlite_lexer::quote_name;
use rusqlite::params_from_iter;

use super::side::{PageRoom, TableSide, named};
use crate::cells::{self, NamedCells, Param};
use crate::connection::Connection;
use crate::engine::DoltliteEngine;
use crate::schema;

/// Returns a page of changed rows. The engine's time depends on the amount of changes, not on the size of the table.
pub(super) fn by_engine(
    engine: &DoltliteEngine,
    database: DatabaseId,
    (from, to): (&CommitHash, &CommitHash),
    (old, new): (&TableSide, &TableSide),
    page: &RowPage,
) -> Result<ChangedRows, EngineError> {
    // The engine shows both versions of a row with the columns of the commit that the connection is at.
    let half = |at: &CommitHash, prefix: &str, side: &TableSide| {
        engine.reading_within(engine.options.diff_timeout, database, at, "read changed rows", |connection| {
            engine_rows(connection, (from, to), side, prefix, page)
        })
    };
    let (after, more_after) = half(to, "to_", new)?;
    let (before, more_before) = half(from, "from_", old)?;
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

/// Returns the halves of a page. The second value is `true` if there may be more.
fn engine_rows(
    connection: &Connection,
    (from, to): (&CommitHash, &CommitHash),
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
    let commits = [Cell::Text(from.as_str().into()), Cell::Text(to.as_str().into())];
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
