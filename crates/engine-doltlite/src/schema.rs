//! Tables, views and other schema objects at a commit.

use std::collections::HashMap;

use branchyard_domain::entities::{
    ForeignKey, Index, ObjectKind, SchemaObject, TableColumn, TableKind, TableSchema, Trigger,
};
use branchyard_sqlite_lexer::quote_name;
use rusqlite::OptionalExtension;

use crate::connection::Connection;
use crate::guard::MAX_SQL;
use crate::sql::errors;

/// A condition that selects the schema entries of users. It excludes the tables in which the modules that users may use
/// (`guard/lists.rs`) keep their content. `pragma_table_list` also knows these tables, but prepares every view first,
/// which may take unboundedly long.
const USERS: &str = "name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'dolt\\_%' ESCAPE '\\'
    AND lower(name) NOT IN (SELECT lower(v.name) || suffix.column1 FROM sqlite_schema AS v,
        (VALUES ('_config'), ('_content'), ('_data'), ('_docsize'), ('_idx'), ('_node'), ('_parent'), ('_rowid')) AS suffix
        WHERE v.type = 'table' AND v.sql LIKE 'CREATE VIRTUAL%')";

/// Returns the names of the user's tables, in alphabetical order.
pub(crate) fn table_names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = format!("SELECT name FROM sqlite_schema WHERE type = 'table' AND {USERS} ORDER BY name");
    connection.raw().prepare_cached(&sql)?.query_map([], |row| row.get(0))?.collect()
}

/// Returns the names and the `CREATE` statements of the user's tables, by name.
pub(crate) fn table_definitions(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let sql = format!("SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND {USERS} ORDER BY name");
    let mut statement = connection.raw().prepare_cached(&sql)?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Returns the columns of a table that hold values of their own, in order. Generated columns do not.
pub(crate) fn stored_columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement =
        connection.raw().prepare_cached("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0 ORDER BY cid")?;
    statement.query_map([table], |row| row.get(0))?.collect()
}

/// Finds a table or view regardless of letter case. Returns its name as stored and its kind.
pub(crate) fn find(connection: &Connection, table: &str) -> rusqlite::Result<Option<(String, TableKind)>> {
    let sql = format!(
        "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') AND {USERS} AND lower(name) = lower(?) LIMIT 1"
    );
    connection.raw().query_row(&sql, [table], |row| Ok((row.get(0)?, kind(row.get_ref(1)?.as_str()?)))).optional()
}

fn kind(text: &str) -> TableKind {
    if text == "view" { TableKind::View } else { TableKind::Table }
}

/// Returns all tables and views of the user, ordered by name.
pub(crate) fn tables(connection: &Connection) -> rusqlite::Result<Vec<TableSchema>> {
    let sql = format!(
        "SELECT name, type, coalesce(sql, '') FROM sqlite_schema WHERE type IN ('table', 'view') AND {USERS} ORDER BY name"
    );
    let mut statement = connection.raw().prepare_cached(&sql)?;
    let entries: Vec<(String, TableKind, String)> = statement
        .query_map([], |row| Ok((row.get(0)?, kind(row.get_ref(1)?.as_str()?), row.get(2)?)))?
        .collect::<Result<_, _>>()?;
    let mut triggers = triggers(connection)?;
    let with_triggers = |(name, kind, create): (String, TableKind, String)| {
        let triggers = triggers.remove(&name.to_ascii_lowercase()).unwrap_or_default();
        table(connection, name, kind, create, triggers)
    };
    entries.into_iter().map(with_triggers).collect()
}

/// Returns the triggers by the lower-case name of their table. The engine stores that name as the statement spelled it.
fn triggers(connection: &Connection) -> rusqlite::Result<HashMap<String, Vec<Trigger>>> {
    let mut statement = connection.raw().prepare_cached(
        "SELECT tbl_name, name, coalesce(sql, '') FROM sqlite_schema WHERE type = 'trigger' ORDER BY name",
    )?;
    let mut rows = statement.query([])?;
    let mut triggers: HashMap<String, Vec<Trigger>> = HashMap::new();
    while let Some(row) = rows.next()? {
        let table: String = row.get(0)?;
        let trigger = Trigger { name: row.get(1)?, create_statement: row.get(2)? };
        triggers.entry(table.to_ascii_lowercase()).or_default().push(trigger);
    }
    Ok(triggers)
}

/// Returns all indexes, triggers and views of the user. No trigger is left out, regardless of its name or table,
/// because an unlisted trigger would not be reviewed.
pub(crate) fn objects(connection: &Connection) -> rusqlite::Result<Vec<SchemaObject>> {
    let mut statement =
        connection.raw().prepare_cached("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')")?;
    let mut rows = statement.query([])?;
    let mut spelled: HashMap<String, String> = HashMap::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        spelled.insert(name.to_ascii_lowercase(), name);
    }
    let sql = format!(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE type = 'trigger' OR type = 'view' AND {USERS}
         OR type = 'index' AND sql IS NOT NULL AND tbl_name IN (SELECT name FROM sqlite_schema WHERE type = 'table' AND {USERS})"
    );
    let mut statement = connection.raw().prepare_cached(&sql)?;
    let objects = statement.query_map([], |row| {
        let owner: String = row.get(2)?;
        Ok(SchemaObject {
            kind: match row.get_ref(0)?.as_str()? {
                "trigger" => ObjectKind::Trigger,
                "view" => ObjectKind::View,
                _ => ObjectKind::Index,
            },
            name: row.get(1)?,
            owner: spelled.get(&owner.to_ascii_lowercase()).cloned().unwrap_or(owner),
            create_statement: row.get::<_, Option<String>>(3)?.unwrap_or_default(),
        })
    })?;
    objects.collect()
}

fn table(
    connection: &Connection,
    name: String,
    kind: TableKind,
    create_statement: String,
    triggers: Vec<Trigger>,
) -> rusqlite::Result<TableSchema> {
    let is_table = kind == TableKind::Table;
    // The columns of a broken view cannot be determined.
    let columns = match columns(connection, &name) {
        Err(error) if !is_table && !errors::cut_short(&error) => Vec::new(),
        other => other?,
    };
    let primary_key = key_names(&columns);
    Ok(TableSchema {
        indexes: if is_table { indexes(connection, &name)? } else { Vec::new() },
        foreign_keys: if is_table { foreign_keys(connection, &name)? } else { Vec::new() },
        columns: columns.into_iter().map(|column| column.0).collect(),
        name,
        kind,
        primary_key,
        triggers,
        create_statement,
    })
}

/// Removes the columns of views that name a hidden commit, and of views over such views, because they would be the
/// columns of that commit.
pub(crate) fn hide_columns(tables: &mut [TableSchema], names_hidden: impl Fn(&str) -> bool) {
    let mut hidden: Vec<String> = Vec::new();
    loop {
        let shows = |view: &&mut TableSchema| view.kind == TableKind::View && !view.columns.is_empty();
        let is_over = |sql: &str| {
            let sql = sql.to_ascii_lowercase();
            hidden.iter().any(|name| sql.contains(name.as_str()))
        };
        let found = tables
            .iter_mut()
            .filter(shows)
            .find(|view| names_hidden(&view.create_statement) || is_over(&view.create_statement));
        let Some(view) = found else { return };
        view.columns.clear();
        view.primary_key.clear();
        hidden.push(view.name.to_ascii_lowercase());
    }
}

/// Returns the columns of a table in order, each with its position in the primary key: from 1, or 0 for other columns.
pub(crate) fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<(TableColumn, u32)>> {
    // Hidden columns of virtual tables (1) are left out; generated columns (2, 3) are not.
    let mut statement = connection.raw().prepare_cached(
        "SELECT name, type, \"notnull\", dflt_value, pk, hidden > 1 FROM pragma_table_xinfo(?) WHERE hidden <> 1 ORDER BY cid",
    )?;
    let mut rows = statement.query([table])?;
    let mut columns = Vec::new();
    // The columns of a view are found by preparing its statement, so the memory counts.
    while let Some(row) = connection.spend(|| rows.next())? {
        let place: u32 = row.get(4)?;
        let not_null: bool = row.get(2)?;
        columns.push((
            TableColumn {
                name: row.get(0)?,
                declared_type: row.get::<_, Option<String>>(1)?.unwrap_or_default(),
                // The engine lets no column of a primary key be NULL.
                nullable: !not_null && place == 0,
                default: row.get(3)?,
                in_primary_key: place > 0,
                is_generated: row.get(5)?,
            },
            place,
        ));
    }
    Ok(columns)
}

/// Returns the names of the key columns, in key order.
pub(crate) fn key_names(columns: &[(TableColumn, u32)]) -> Vec<String> {
    let mut key: Vec<_> = columns.iter().filter(|column| column.1 > 0).collect();
    key.sort_by_key(|column| column.1);
    key.into_iter().map(|column| column.0.name.clone()).collect()
}

/// Returns the columns of a primary key that has an index of its own, in key order, each with the collation of its
/// comparisons.
pub(crate) fn key_collations(connection: &Connection, table: &str) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.raw().prepare_cached(
        "SELECT x.name, x.coll FROM pragma_index_list(?) AS l, pragma_index_xinfo(l.name) AS x
         WHERE l.origin = 'pk' AND x.key = 1 AND x.name IS NOT NULL ORDER BY x.seqno",
    )?;
    let columns = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    columns.collect()
}

fn indexes(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Index>> {
    let mut list =
        connection.raw().prepare_cached("SELECT name, \"unique\" FROM pragma_index_list(?) ORDER BY name")?;
    let mut info = connection.raw().prepare_cached("SELECT name FROM pragma_index_info(?) ORDER BY seqno")?;
    let found: Vec<(String, bool)> =
        list.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    let mut indexes = Vec::with_capacity(found.len());
    for (name, unique) in found {
        let columns = info.query_map([&name], |row| row.get::<_, Option<String>>(0))?.collect::<Result<Vec<_>, _>>()?;
        indexes.push(Index { name, columns: columns.into_iter().flatten().collect(), unique });
    }
    Ok(indexes)
}

/// Returns the foreign keys of a table, in the order of their declaration.
pub(crate) fn foreign_keys(connection: &Connection, table: &str) -> rusqlite::Result<Vec<ForeignKey>> {
    // The engine numbers foreign keys in reverse order.
    let mut statement = connection.raw().prepare_cached(
        "SELECT id, \"table\", \"from\", \"to\" FROM pragma_foreign_key_list(?) ORDER BY id DESC, seq",
    )?;
    let mut rows = statement.query([table])?;
    let mut keys: Vec<(i64, ForeignKey)> = Vec::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        if keys.last().is_none_or(|key| key.0 != id) {
            let references_table = row.get(1)?;
            keys.push((id, ForeignKey { columns: Vec::new(), references_table, references_columns: Vec::new() }));
        }
        if let Some((_, key)) = keys.last_mut() {
            key.columns.push(row.get(2)?);
            key.references_columns.extend(row.get::<_, Option<String>>(3)?);
        }
    }
    Ok(keys.into_iter().map(|key| key.1).collect())
}

/// Returns an error message if a definition is too long for a connection to read it again.
pub(crate) fn too_long(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let mut statement = connection.raw().prepare_cached(
        "SELECT type, substr(name, 1, 100) FROM sqlite_schema WHERE octet_length(sql) > ? ORDER BY name LIMIT 1",
    )?;
    let found = statement.query_row([MAX_SQL], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
    let found = found.optional()?;
    Ok(found.map(|(kind, name)| format!("the definition of the {kind} '{name}' would have more than {MAX_SQL} bytes")))
}

/// Returns the quoted name of the engine table for `table`, whose name starts with `prefix`.
pub(crate) fn history_table(prefix: &str, table: &str) -> String {
    quote_name(&format!("{prefix}{table}"))
}
