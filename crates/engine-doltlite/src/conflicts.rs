//! Lists the conflicts that an attempted merge left.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use branchyard_domain::entities::{Cell, Conflict, ConflictKind};
use branchyard_sqlite_lexer::{quote_name, quote_names};
use rusqlite::types::ValueRef;

use crate::cells::{self, NamedCells};
use crate::connection::Connection;
use crate::objects::Objects;
use crate::schema;

/// Bytes of conflicts that are listed beyond the requested ones, so that the next pages need no merge of their own.
const MORE_BYTES: usize = 4 << 20;
/// Time limit for listing conflicts beyond the requested ones.
const MORE_TIME: Duration = Duration::from_millis(500);

/// Lists the conflicts that an attempted merge left in the table `only`, or in all tables, ordered by table and then
/// primary key. Leaves out the first `skip`, and lists at least `least` and as many more as [`MORE_BYTES`] and
/// [`MORE_TIME`] allow. The second value is `true` if no conflict follows.
pub(crate) fn list(
    connection: &Connection,
    objects: &Objects,
    only: Option<&str>,
    skip: usize,
    least: usize,
) -> rusqlite::Result<(Vec<Conflict>, bool)> {
    let raw = connection.raw();
    let strings =
        |sql: &str| -> rusqlite::Result<Vec<String>> { raw.prepare(sql)?.query_map([], |row| row.get(0))?.collect() };
    let rows: BTreeSet<_> =
        strings("SELECT \"table\" FROM dolt_conflicts WHERE num_conflicts > 0 AND \"table\" <> 'dolt_schemas'")?
            .into_iter()
            .collect();
    let violations: BTreeSet<_> = strings("SELECT \"table\" FROM dolt_constraint_violations")?.into_iter().collect();
    let schemas: BTreeSet<_> = strings("SELECT table_name FROM dolt_schema_conflicts")?.into_iter().collect();
    let mut page =
        ConflictPage { skip, least, until: Instant::now() + MORE_TIME, bytes: 0, more: false, conflicts: Vec::new() };
    for table in rows.iter().chain(&violations).chain(&schemas).chain(objects.keys()).collect::<BTreeSet<_>>() {
        if only.is_some_and(|only| !only.eq_ignore_ascii_case(table)) {
            continue;
        }
        if page.more {
            break;
        }
        if let Some(detail) = objects.get(table)
            && page.wants()
        {
            page.give(Conflict { detail: Some(detail.clone()), ..blank(table, ConflictKind::Object) });
        }
        if schemas.contains(table) {
            schema_conflicts(connection, table, &mut page)?;
        }
        if rows.contains(table) {
            row_conflicts(connection, table, &mut page)?;
        }
        if violations.contains(table) {
            constraint_conflicts(connection, table, &mut page)?;
        }
    }
    Ok((page.conflicts, !page.more))
}

/// The page of a list that is being read.
struct ConflictPage {
    skip: usize,
    least: usize,
    until: Instant,
    bytes: usize,
    /// Whether a conflict follows the page.
    more: bool,
    conflicts: Vec<Conflict>,
}

impl ConflictPage {
    /// Returns `true` if the next conflict belongs to the page.
    fn wants(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.more |= self.conflicts.len() >= self.least && (self.bytes >= MORE_BYTES || Instant::now() >= self.until);
        !self.more
    }

    fn give(&mut self, conflict: Conflict) {
        self.bytes += size(&conflict);
        self.conflicts.push(conflict);
    }
}

/// Returns the approximate size of a conflict in bytes.
pub(crate) fn size(conflict: &Conflict) -> usize {
    let row = |cells: &[(String, Cell)]| -> usize {
        let cell = |(name, cell): &(String, Cell)| name.len() + 64 + cell.bytes();
        cells.iter().map(cell).sum()
    };
    let sides = [&conflict.base, &conflict.ours, &conflict.theirs].into_iter().flatten();
    sides.map(|side| row(side)).sum::<usize>()
        + row(&conflict.primary_key)
        + conflict.table.len()
        + conflict.detail.as_ref().map_or(0, String::len)
        + 256
}

fn blank(table: &str, kind: ConflictKind) -> Conflict {
    Conflict {
        table: table.to_owned(),
        kind,
        primary_key: Vec::new(),
        base: None,
        ours: None,
        theirs: None,
        detail: None,
    }
}

fn schema_conflicts(connection: &Connection, table: &str, page: &mut ConflictPage) -> rusqlite::Result<()> {
    let mut statement =
        connection.raw().prepare("SELECT description FROM dolt_schema_conflicts WHERE table_name = ? ORDER BY 1")?;
    let mut rows = statement.query([table])?;
    while let Some(row) = rows.next()? {
        if page.wants() {
            page.give(Conflict { detail: Some(cells::text(row.get_ref(0)?)), ..blank(table, ConflictKind::Schema) });
        }
        if page.more {
            break;
        }
    }
    Ok(())
}

fn row_conflicts(connection: &Connection, table: &str, page: &mut ConflictPage) -> rusqlite::Result<()> {
    let name = schema::history_table("dolt_conflicts_", table);
    let key = schema::key_names(&schema::columns(connection, table)?);
    // The key is taken from whichever side has the row.
    let order = if key.is_empty() {
        "1".to_owned()
    } else {
        let side = |side: &str, column: &str| quote_name(&format!("{side}_{column}"));
        key.iter()
            .map(|column| {
                format!("coalesce({}, {}, {})", side("our", column), side("their", column), side("base", column))
            })
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut statement =
        connection.spend(|| connection.raw().prepare(&format!("SELECT * FROM {name} ORDER BY {order}")))?;
    // Columns: from_root_ish, base_*, our_*, our_diff_type, their_*, their_diff_type, dolt_conflict_id.
    let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let width = names.len().saturating_sub(4) / 3;
    let columns: Vec<String> =
        names.iter().skip(1).take(width).map(|name| name.strip_prefix("base_").unwrap_or(name).to_owned()).collect();
    let mut rows = statement.query([])?;
    while let Some(row) = connection.spend(|| rows.next())? {
        if page.wants() {
            let part = |from: usize| -> rusqlite::Result<NamedCells> {
                columns
                    .iter()
                    .enumerate()
                    .map(|(at, name)| Ok((name.clone(), cells::cell(row.get_ref(from + at)?))))
                    .collect()
            };
            let change = |at: usize| -> rusqlite::Result<String> { Ok(cells::text(row.get_ref(at)?)) };
            let (our_change, their_change) = (change(1 + 2 * width)?, change(2 + 3 * width)?);
            let base = if our_change == "added" || their_change == "added" { None } else { Some(part(1)?) };
            let ours = if our_change == "removed" { None } else { Some(part(1 + width)?) };
            let theirs = if their_change == "removed" { None } else { Some(part(2 + 2 * width)?) };
            let primary_key = if key.is_empty() {
                row_id(connection, table, ours.as_ref().or(base.as_ref()))?
            } else {
                key_of(&key, ours.as_ref().or(theirs.as_ref()).or(base.as_ref()))
            };
            page.give(Conflict { primary_key, base, ours, theirs, ..blank(table, ConflictKind::Row) });
        }
        if page.more {
            break;
        }
    }
    Ok(())
}

fn key_of(key: &[String], row: Option<&NamedCells>) -> NamedCells {
    let find = |name: &String| row.and_then(|row| row.iter().find(|cell| cell.0 == *name)).map(|cell| cell.1.clone());
    key.iter().map(|name| (name.clone(), find(name).unwrap_or(Cell::Null))).collect()
}

/// Finds the row id of a row in conflict. The engine does not report it, so the id is that of a row with the same
/// values.
fn row_id(connection: &Connection, table: &str, row: Option<&NamedCells>) -> rusqlite::Result<NamedCells> {
    let Some(row) = row else { return Ok(Vec::new()) };
    let same = row.iter().map(|(name, _)| format!("{} IS ?", quote_name(name))).collect::<Vec<_>>().join(" AND ");
    let sql = format!("SELECT rowid FROM {} WHERE {same} LIMIT 1", quote_name(table));
    let mut statement = connection.raw().prepare(&sql)?;
    let mut rows = statement.query(rusqlite::params_from_iter(row.iter().map(|cell| cells::Param(&cell.1))))?;
    Ok(match connection.spend(|| rows.next())? {
        Some(found) => vec![("rowid".to_owned(), cells::cell(found.get_ref(0)?))],
        None => Vec::new(),
    })
}

fn constraint_conflicts(connection: &Connection, table: &str, page: &mut ConflictPage) -> rusqlite::Result<()> {
    let name = schema::history_table("dolt_constraint_violations_", table);
    let key = schema::key_names(&schema::columns(connection, table)?);
    let order = if key.is_empty() { "1".to_owned() } else { quote_names(key.iter().map(String::as_str)) };
    let mut statement = connection.raw().prepare(&format!("SELECT * FROM {name} ORDER BY {order}"))?;
    // Columns: violation_type, the columns of the table, violation_info.
    let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let mut rows = statement.query([])?;
    while let Some(row) = connection.spend(|| rows.next())? {
        if page.wants() {
            let found = (1..names.len().saturating_sub(1))
                .map(|at| Ok((names[at].clone(), cells::cell(row.get_ref(at)?))))
                .collect::<rusqlite::Result<NamedCells>>()?;
            let info = row.get_ref(names.len().saturating_sub(1))?;
            let info = if info == ValueRef::Null { String::new() } else { format!(": {}", cells::text(info)) };
            page.give(Conflict {
                primary_key: key_of(&key, Some(&found)),
                detail: Some(format!("{}{info}", cells::text(row.get_ref(0)?))),
                ..blank(table, ConflictKind::Constraint)
            });
        }
        if page.more {
            break;
        }
    }
    Ok(())
}
