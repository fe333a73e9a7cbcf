//! Resolves conflicts of single rows.

use std::collections::{BTreeMap, HashMap};

use branchyard_domain::entities::{Cell, ResolvedRow, RowResolution, Side, TableKind};
use branchyard_domain::ports::EngineError;
use branchyard_sqlite_lexer::{quote_name, quote_names};
use rusqlite::config::DbConfig;
use rusqlite::params_from_iter;

use crate::cells::{self, NamedCells, Param};
use crate::connection::Connection;
use crate::schema;
use crate::sql::errors;

/// A conflict that is to be resolved.
struct RowConflict<'a> {
    resolution: &'a RowResolution,
    row_id: i64,
    ours: Option<NamedCells>,
    theirs: Option<NamedCells>,
}

/// Sets rows in conflict to the values that `resolutions` decide on, and removes their conflicts. Triggers do not run, as in a merge.
///
/// # Errors
/// [`EngineError::CannotMerge`] if a row is not in conflict, or cannot have these values.
pub(crate) fn resolve(connection: &Connection, resolutions: &[RowResolution]) -> Result<(), EngineError> {
    if resolutions.is_empty() {
        return Ok(());
    }
    let fault = |error| errors::fault("resolve conflicts of rows", error);
    let mut tables: BTreeMap<String, Vec<&RowResolution>> = BTreeMap::new();
    for resolution in resolutions {
        tables.entry(resolution.table.to_ascii_lowercase()).or_default().push(resolution);
    }
    let triggers = DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER;
    let had_triggers = connection.raw().db_config(triggers).map_err(fault)?;
    connection.raw().set_db_config(triggers, false).map_err(fault)?;
    let resolved = tables.values().try_for_each(|resolutions| resolve_table(connection, resolutions));
    connection.raw().set_db_config(triggers, had_triggers).map_err(fault)?;
    resolved
}

fn resolve_table(connection: &Connection, resolutions: &[&RowResolution]) -> Result<(), EngineError> {
    let fault = |error| errors::fault("resolve conflicts of rows", error);
    let Some(first) = resolutions.first() else { return Ok(()) };
    let found = schema::find(connection, &first.table).map_err(fault)?;
    let Some((table, _)) = found.filter(|(_, kind)| *kind == TableKind::Table) else {
        return Err(EngineError::CannotMerge(format!("there is no table '{}'", first.table)));
    };
    let columns = schema::columns(connection, &table).map_err(fault)?;
    let key = schema::key_names(&columns);
    if key.is_empty() {
        let advice = "has no primary key, so its conflicts cannot be resolved row by row: choose a side for the table";
        return Err(EngineError::CannotMerge(format!("table '{table}' {advice}")));
    }
    let stored = stored_columns(connection, &table).map_err(fault)?;
    let conflicts = find(connection, &table, &key, resolutions)?;
    for conflict in &conflicts {
        let refused = |error: rusqlite::Error| match errors::cut_short(&error) {
            true => fault(error),
            false => {
                let text = errors::parts(&error).1;
                EngineError::CannotMerge(format!("the row {} of '{table}': {text}", label(conflict.resolution)))
            }
        };
        let row = wanted(conflict, &table, &key, &stored)?;
        write(connection, &table, &key, &stored, conflict, row.as_ref()).map_err(refused)?;
        let conflicts = schema::history_table("dolt_conflicts_", &table);
        let sql = format!("DELETE FROM {conflicts} WHERE rowid = ?");
        connection.spend(|| connection.raw().execute(&sql, [conflict.row_id])).map_err(fault)?;
    }
    Ok(())
}

/// Returns the names of the columns that are not generated.
fn stored_columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement =
        connection.raw().prepare_cached("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0 ORDER BY cid")?;
    statement.query_map([table], |row| row.get(0))?.collect()
}

/// Finds the conflict of each resolution.
fn find<'a>(
    connection: &Connection,
    table: &str,
    key: &[String],
    resolutions: &[&'a RowResolution],
) -> Result<Vec<RowConflict<'a>>, EngineError> {
    let fault = |error| errors::fault("read conflicts", error);
    let wrong = |resolution: &RowResolution, what: &str| {
        EngineError::CannotMerge(format!("the row {} of '{table}' {what}", label(resolution)))
    };
    let missing = |resolution: &RowResolution| wrong(resolution, "is not in conflict; look at the conflicts again");
    // By a form of the key that equal keys share. Keys that share it are compared.
    let mut wanted: HashMap<Vec<String>, Vec<&'a RowResolution>> = HashMap::new();
    for resolution in resolutions {
        let cells = in_order(key, &resolution.primary_key).ok_or_else(|| missing(resolution))?;
        wanted.entry(cells.iter().map(|cell| canonical(cell)).collect()).or_default().push(resolution);
    }
    let name = schema::history_table("dolt_conflicts_", table);
    let mut statement =
        connection.spend(|| connection.raw().prepare(&format!("SELECT rowid, * FROM {name}"))).map_err(fault)?;
    // Columns: rowid, from_root_ish, base_*, our_*, our_diff_type, their_*, their_diff_type, dolt_conflict_id.
    let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let width = names.len().saturating_sub(5) / 3;
    let columns: Vec<String> =
        names.iter().skip(2).take(width).map(|name| name.strip_prefix("base_").unwrap_or(name).to_owned()).collect();
    let mut rows = statement.query([]).map_err(fault)?;
    let (mut found, mut again) = (Vec::new(), None);
    while let Some(row) = connection.spend(|| rows.next()).map_err(fault)? {
        let mut read = || -> rusqlite::Result<Option<RowConflict<'a>>> {
            let part = |from: usize| -> rusqlite::Result<NamedCells> {
                let cell = |(at, name): (usize, &String)| Ok((name.clone(), cells::cell(row.get_ref(from + at)?)));
                columns.iter().enumerate().map(cell).collect()
            };
            let is_removed = |at: usize| -> rusqlite::Result<bool> { Ok(cells::text(row.get_ref(at)?) == "removed") };
            let ours = if is_removed(2 + 2 * width)? { None } else { Some(part(2 + width)?) };
            let theirs = if is_removed(3 + 3 * width)? { None } else { Some(part(3 + 2 * width)?) };
            let Some(cells) = ours.as_ref().or(theirs.as_ref()).and_then(|row| in_order(key, row)) else {
                return Ok(None);
            };
            let form: Vec<String> = cells.iter().map(|cell| canonical(cell)).collect();
            let Some(candidates) = wanted.get_mut(&form) else { return Ok(None) };
            let is_same = |resolution: &&RowResolution| {
                let given = in_order(key, &resolution.primary_key).unwrap_or_default();
                given.iter().zip(&cells).all(|(given, stored)| is_meant(given, stored))
            };
            let Some(at) = candidates.iter().position(is_same) else { return Ok(None) };
            let resolution = candidates.swap_remove(at);
            again = again.or_else(|| candidates.iter().copied().find(|other| is_same(other)));
            Ok(Some(RowConflict { resolution, row_id: row.get(0)?, ours, theirs }))
        };
        found.extend(read().map_err(fault)?);
    }
    match (again, wanted.into_values().flatten().next()) {
        (Some(twice), _) => Err(wrong(twice, "is resolved twice; name each row once")),
        (None, Some(left)) => Err(missing(left)),
        (None, None) => Ok(found),
    }
}

/// Returns the values of a key in its order, or `None` if one is missing.
fn in_order<'c>(key: &[String], cells: &'c [(String, Cell)]) -> Option<Vec<&'c Cell>> {
    let of = |name: &String| cells.iter().find(|(column, _)| column.eq_ignore_ascii_case(name)).map(|(_, cell)| cell);
    key.iter().map(of).collect()
}

/// Returns a form that a value shares with all texts that mean it.
fn canonical(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Integer(number) => canonical_number(&number.to_string()),
        Cell::Real(number) => canonical_number(&number.to_string()),
        Cell::Text(text) => canonical_number(&String::from_utf8_lossy(text)),
        Cell::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn canonical_number(text: &str) -> String {
    text.parse::<f64>().map_or_else(|_| text.to_owned(), |number| format!("{number:e}"))
}

/// Returns `true` if a value that a caller wrote means a stored one. Callers may write numbers as texts.
fn is_meant(given: &Cell, stored: &Cell) -> bool {
    match (given, stored) {
        (Cell::Text(text), Cell::Integer(number)) => {
            std::str::from_utf8(text).is_ok_and(|text| text.parse() == Ok(*number))
        }
        (Cell::Text(text), Cell::Real(number)) => {
            std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok()) == Some(*number)
        }
        (given, stored) => given == stored,
    }
}

/// Returns the row that a resolution decides on; `None` for no row.
fn wanted(
    conflict: &RowConflict<'_>,
    table: &str,
    key: &[String],
    stored: &[String],
) -> Result<Option<NamedCells>, EngineError> {
    let values = match &conflict.resolution.becomes {
        ResolvedRow::Of(Side::Ours) => return Ok(conflict.ours.clone()),
        ResolvedRow::Of(Side::Theirs) => return Ok(conflict.theirs.clone()),
        ResolvedRow::With(values) => values,
    };
    let mut row = conflict.ours.clone().or_else(|| conflict.theirs.clone()).unwrap_or_default();
    for (column, value) in values {
        let refuse = |why: &str| {
            EngineError::CannotMerge(format!("the row {} of '{table}': {why} '{column}'", label(conflict.resolution)))
        };
        let Some((name, cell)) = row.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case(column)) else {
            return Err(refuse("there is no column"));
        };
        if key.contains(name) {
            if !is_meant(value, cell) {
                return Err(refuse("the primary key stays as it is, also in"));
            }
        } else if stored.contains(name) {
            *cell = value.clone();
        } else {
            return Err(refuse("a value is generated for"));
        }
    }
    Ok(Some(row))
}

/// Writes a row in the place of ours.
fn write(
    connection: &Connection,
    table: &str,
    key: &[String],
    stored: &[String],
    conflict: &RowConflict<'_>,
    row: Option<&NamedCells>,
) -> rusqlite::Result<()> {
    let table = quote_name(table);
    let of_key = conflict.ours.as_ref().or(conflict.theirs.as_ref()).and_then(|row| in_order(key, row));
    let of_key = of_key.unwrap_or_default();
    let same: Vec<String> = key.iter().map(|name| format!("{} = ?", quote_name(name))).collect();
    let same = same.join(" AND ");
    let run = |sql: &str, values: Vec<&Cell>| {
        connection.spend(|| connection.raw().execute(sql, params_from_iter(values.into_iter().map(Param)))).map(drop)
    };
    let Some(row) = row else {
        return match conflict.ours {
            Some(_) => run(&format!("DELETE FROM {table} WHERE {same}"), of_key),
            None => Ok(()),
        };
    };
    let cells: Vec<&(String, Cell)> = row.iter().filter(|(name, _)| stored.contains(name)).collect();
    match &conflict.ours {
        Some(ours) if ours == row => Ok(()),
        Some(_) => {
            let changed: Vec<_> = cells.into_iter().filter(|(name, _)| !key.contains(name)).collect();
            if changed.is_empty() {
                return Ok(());
            }
            let set: Vec<String> = changed.iter().map(|(name, _)| format!("{} = ?", quote_name(name))).collect();
            let values = changed.iter().map(|(_, cell)| cell).chain(of_key).collect();
            run(&format!("UPDATE {table} SET {} WHERE {same}", set.join(", ")), values)
        }
        None => {
            let names = quote_names(cells.iter().map(|(name, _)| name.as_str()));
            let marks = vec!["?"; cells.len()].join(", ");
            let values = cells.iter().map(|(_, cell)| cell).collect();
            run(&format!("INSERT INTO {table} ({names}) VALUES ({marks})"), values)
        }
    }
}

fn label(resolution: &RowResolution) -> String {
    let part = |(name, cell): &(String, Cell)| match cell {
        Cell::Null => format!("{name} = NULL"),
        Cell::Integer(number) => format!("{name} = {number}"),
        Cell::Real(number) => format!("{name} = {number:?}"),
        Cell::Text(text) => format!("{name} = {}", String::from_utf8_lossy(text).chars().take(100).collect::<String>()),
        Cell::Blob(bytes) => format!("{name} = {} bytes", bytes.len()),
    };
    resolution.primary_key.iter().map(part).collect::<Vec<_>>().join(", ")
}
