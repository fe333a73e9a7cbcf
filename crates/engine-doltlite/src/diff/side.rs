//! One side of a diff: a table at one commit.

use branchyard_domain::entities::{Cell, TableKind};
use branchyard_domain::ports::RowPage;
use branchyard_sqlite_lexer::{quote_name, quote_names};
use rusqlite::{OptionalExtension as _, params_from_iter};

use crate::cells::{self, NamedCells, Param};
use crate::connection::Connection;
use crate::schema;

/// A table or view at one commit.
pub(crate) struct TableSide {
    pub(crate) name: String,
    pub(crate) is_view: bool,
    pub(crate) columns: Vec<String>,
    pub(crate) key: Vec<String>,
}

impl TableSide {
    pub(crate) fn find(connection: &Connection, table: &str) -> rusqlite::Result<Option<Self>> {
        let Some((name, kind)) = schema::find(connection, table)? else { return Ok(None) };
        if kind == TableKind::View {
            return Ok(Some(Self { name, is_view: true, columns: Vec::new(), key: Vec::new() }));
        }
        let columns = schema::columns(connection, &name)?;
        let key = schema::key_names(&columns);
        Ok(Some(Self { name, is_view: false, columns: columns.into_iter().map(|column| column.0.name).collect(), key }))
    }

    /// Returns the columns that rows are ordered and found by.
    pub(crate) fn order(&self) -> Vec<String> {
        if !self.key.is_empty() {
            return self.key.iter().map(|name| quote_name(name)).collect();
        }
        vec![self.row_id().unwrap_or("rowid").to_owned()]
    }

    /// Returns a name of the row id that no column of the user has. Returns `None` if all names are taken.
    pub(crate) fn row_id(&self) -> Option<&'static str> {
        let free = |name: &&str| !self.columns.iter().any(|column| column.eq_ignore_ascii_case(name));
        ["rowid", "_rowid_", "oid"].into_iter().find(free)
    }

    pub(super) fn key_columns(&self) -> Vec<String> {
        if self.key.is_empty() { vec!["rowid".to_owned()] } else { self.key.clone() }
    }

    /// Returns the SQL that selects all rows, or those after a key, in key order: the key first, then the columns. With
    /// `binary` set, the order is the same for every definition of the key, but may not be that of an index.
    pub(super) fn select(&self, after: bool, limit: Option<usize>, binary: bool) -> String {
        let order = self.order();
        let plain: Vec<String> = if binary && !self.key.is_empty() {
            order.iter().map(|column| format!("+{column} COLLATE BINARY")).collect()
        } else {
            order.clone()
        };
        let condition = if after {
            let marks = vec!["?"; order.len()].join(", ");
            format!(" WHERE ({}) > ({marks})", plain.join(", "))
        } else {
            String::new()
        };
        let limit = limit.map(|limit| format!(" LIMIT {limit}")).unwrap_or_default();
        format!(
            "SELECT {}, {} FROM {}{condition} ORDER BY {}{limit}",
            order.join(", "),
            quote_names(self.columns.iter().map(String::as_str)),
            quote_name(&self.name),
            plain.join(", "),
        )
    }

    pub(super) fn split(&self, row: &rusqlite::Row<'_>) -> rusqlite::Result<(NamedCells, NamedCells)> {
        let names = self.key_columns();
        let width = names.len();
        let key = named(&names, row, 0)?;
        Ok((key, named(&self.columns, row, width)?))
    }

    /// Returns the keys and rows of a page. The second value is `true` if there may be more.
    pub(crate) fn rows(
        &self,
        connection: &Connection,
        page: &RowPage,
    ) -> rusqlite::Result<(Vec<(NamedCells, NamedCells)>, bool)> {
        if self.is_view {
            return Ok((Vec::new(), false));
        }
        let after = page.after.as_deref().unwrap_or_default();
        let sql = self.select(!after.is_empty(), Some(page.limit), false);
        let mut statement = connection.spend(|| connection.raw().prepare(&sql))?;
        let mut rows = statement.query(params_from_iter(after.iter().map(Param)))?;
        let mut found = Vec::new();
        let mut room = PageRoom::new(page);
        while room.is_left()
            && let Some(row) = connection.spend(|| rows.next())?
        {
            let (key, row) = self.split(row)?;
            room.take([&key, &row]);
            found.push((key, row));
        }
        Ok((found, !room.is_left()))
    }
}

/// The rows and bytes that still fit on a page.
pub(super) struct PageRoom {
    rows: usize,
    bytes: usize,
}

impl PageRoom {
    pub(super) fn new(page: &RowPage) -> Self {
        Self { rows: page.limit, bytes: page.bytes.max(1) }
    }

    pub(super) fn is_left(&self) -> bool {
        self.rows > 0 && self.bytes > 0
    }

    /// Counts a row that consists of these parts.
    pub(super) fn take<'a>(&mut self, parts: impl IntoIterator<Item = &'a NamedCells>) {
        let bytes: usize = parts.into_iter().flatten().map(|(_, cell)| cell.bytes()).sum();
        self.rows = self.rows.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

pub(super) fn named(names: &[String], row: &rusqlite::Row<'_>, from: usize) -> rusqlite::Result<NamedCells> {
    names.iter().enumerate().map(|(at, name)| Ok((name.clone(), cells::cell(row.get_ref(from + at)?)))).collect()
}

impl TableSide {
    /// Returns the row with this key, whose columns may be in any order. Returns `None` also if the key has other columns.
    pub(crate) fn row(&self, connection: &Connection, key: &[(String, Cell)]) -> rusqlite::Result<Option<NamedCells>> {
        let of = |column: &String| key.iter().find(|(name, _)| name.eq_ignore_ascii_case(column)).map(|(_, cell)| cell);
        let names = self.key_columns();
        let Some(cells) = names.iter().map(of).collect::<Option<Vec<_>>>().filter(|_| !self.is_view) else {
            return Ok(None);
        };
        let same = self.order().iter().map(|column| format!("{column} = ?")).collect::<Vec<_>>().join(" AND ");
        let sql = format!(
            "SELECT {} FROM {} WHERE {same}",
            quote_names(self.columns.iter().map(String::as_str)),
            quote_name(&self.name)
        );
        let read = |row: &rusqlite::Row<'_>| named(&self.columns, row, 0);
        connection.spend_on_row(&sql, params_from_iter(cells.into_iter().map(Param)), read).optional()
    }

    /// Returns `true` if there is a row with this key.
    pub(super) fn has(&self, connection: &Connection, key: &[Cell]) -> rusqlite::Result<bool> {
        let same = self.order().iter().map(|column| format!("{column} IS ?")).collect::<Vec<_>>().join(" AND ");
        let sql = format!("SELECT 1 FROM {} WHERE {same}", quote_name(&self.name));
        let found = connection.spend_on_row(&sql, params_from_iter(key.iter().map(Param)), |_| Ok(())).optional()?;
        Ok(found.is_some())
    }
}
