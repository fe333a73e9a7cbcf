//! Tables, and the tables of a commit.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use branchyard_domain::entities::{Cell, ObjectKind, SchemaObject, TableColumn, TableKind, TableSchema, Trigger};

/// A key in the sort order of the engine: NULL, numbers, text, blobs.
#[derive(Debug, Clone)]
pub(super) struct Key(pub(super) Vec<Cell>);

pub(super) fn compare(a: &Cell, b: &Cell) -> Ordering {
    fn class(cell: &Cell) -> u8 {
        match cell {
            Cell::Null => 0,
            Cell::Integer(_) | Cell::Real(_) => 1,
            Cell::Text(_) => 2,
            Cell::Blob(_) => 3,
        }
    }
    match (a, b) {
        (Cell::Integer(a), Cell::Integer(b)) => a.cmp(b),
        (Cell::Real(a), Cell::Real(b)) => a.total_cmp(b),
        (Cell::Integer(a), Cell::Real(b)) => real(*a).total_cmp(b),
        (Cell::Real(a), Cell::Integer(b)) => a.total_cmp(&real(*b)),
        (Cell::Text(a), Cell::Text(b)) | (Cell::Blob(a), Cell::Blob(b)) => a.cmp(b),
        _ => class(a).cmp(&class(b)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a comparison of a toy")]
pub(super) fn real(number: i64) -> f64 {
    number as f64
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let differing = self.0.iter().zip(&other.0).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
        differing.unwrap_or_else(|| self.0.len().cmp(&other.0.len()))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

/// A row, or `None` if it does not exist.
pub(super) type StoredRow<'a> = Option<&'a Vec<Cell>>;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ColumnDef {
    pub(super) name: String,
    pub(super) declared_type: String,
    pub(super) not_null: bool,
}

impl ColumnDef {
    /// Converts a value by the affinity of the column.
    pub(super) fn convert(&self, cell: Cell) -> Cell {
        let declared = self.declared_type.to_ascii_uppercase();
        let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
        let as_text =
            |cell: &Cell| std::str::from_utf8(if let Cell::Text(t) = cell { t } else { &[] }).map(str::to_owned);
        match cell {
            Cell::Text(_) if has(&["INT"]) => match as_text(&cell).ok().and_then(|text| text.parse().ok()) {
                Some(number) => Cell::Integer(number),
                None => cell,
            },
            Cell::Integer(number) if has(&["CHAR", "CLOB", "TEXT"]) => Cell::Text(number.to_string().into_bytes()),
            Cell::Real(number) if has(&["CHAR", "CLOB", "TEXT"]) => Cell::Text(format!("{number:?}").into_bytes()),
            Cell::Integer(number) if !has(&["INT"]) && has(&["REAL", "FLOA", "DOUB"]) => Cell::Real(real(number)),
            other => other,
        }
    }
}

/// The definition of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) columns: Vec<ColumnDef>,
    /// Columns of the primary key. If there are none, rows are numbered.
    pub(super) key: Vec<usize>,
    /// Triggers by name. They are stored and never run.
    pub(super) triggers: Vec<Trigger>,
    pub(super) create_statement: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    pub(super) definition: Definition,
    pub(super) rows: BTreeMap<Key, Vec<Cell>>,
}

/// A row with column names, as the port returns it.
pub(super) type Named = Vec<(String, Cell)>;

impl Table {
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.definition.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// Returns the key of a row, which is the next number if the table has no primary key.
    pub(super) fn key_of(&self, row: &[Cell]) -> Key {
        if self.definition.key.is_empty() {
            return Key(vec![Cell::Integer(self.next_number())]);
        }
        Key(self.definition.key.iter().filter_map(|at| row.get(*at).cloned()).collect())
    }

    pub(super) fn next_number(&self) -> i64 {
        match self.rows.last_key_value().map(|(key, _)| key.0.as_slice()) {
            Some([Cell::Integer(last)]) => last.saturating_add(1),
            _ => 1,
        }
    }

    pub(super) fn named_key(&self, key: &Key) -> Named {
        let names: Vec<String> = match self.definition.key.as_slice() {
            [] => vec!["rowid".to_owned()],
            columns => columns.iter().map(|at| self.definition.columns[*at].name.clone()).collect(),
        };
        names.into_iter().zip(key.0.iter().cloned()).collect()
    }

    pub(super) fn named(&self, row: &[Cell]) -> Named {
        self.definition.columns.iter().map(|column| column.name.clone()).zip(row.iter().cloned()).collect()
    }

    pub(super) fn schema(&self) -> TableSchema {
        let definition = &self.definition;
        let column = |(at, column): (usize, &ColumnDef)| TableColumn {
            name: column.name.clone(),
            declared_type: column.declared_type.clone(),
            nullable: !column.not_null,
            default: None,
            in_primary_key: definition.key.contains(&at),
            is_generated: false,
        };
        TableSchema {
            name: definition.name.clone(),
            kind: TableKind::Table,
            columns: definition.columns.iter().enumerate().map(column).collect(),
            primary_key: definition.key.iter().map(|at| definition.columns[*at].name.clone()).collect(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            triggers: definition.triggers.clone(),
            create_statement: definition.create_statement.clone(),
        }
    }
}

/// The tables of a commit, by lower-case name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Snapshot(pub(super) BTreeMap<String, Arc<Table>>);

impl Snapshot {
    pub(super) fn find(&self, name: &str) -> Option<&Table> {
        self.0.get(&name.to_ascii_lowercase()).map(Arc::as_ref)
    }

    pub(super) fn find_mut(&mut self, name: &str) -> Option<&mut Table> {
        self.0.get_mut(&name.to_ascii_lowercase()).map(Arc::make_mut)
    }

    pub(super) fn put(&mut self, table: Table) {
        self.0.insert(table.definition.name.to_ascii_lowercase(), Arc::new(table));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Table> {
        self.0.values().map(Arc::as_ref)
    }

    pub(super) fn objects(&self) -> Vec<SchemaObject> {
        let of_table = |table: &Table| {
            let definition = &table.definition;
            let object = |trigger: &Trigger| SchemaObject {
                kind: ObjectKind::Trigger,
                name: trigger.name.clone(),
                owner: definition.name.clone(),
                create_statement: trigger.create_statement.clone(),
            };
            definition.triggers.iter().map(object).collect::<Vec<_>>()
        };
        self.iter().flat_map(of_table).collect()
    }

    /// Adds the content to a hash. Returns the number of bytes added.
    pub(super) fn digest(&self, hash: &mut Sha256) -> u64 {
        let mut size = 0;
        let mut feed = |kind: u8, bytes: &[u8]| {
            let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            size += length + 1;
            hash.update([kind]);
            hash.update(length.to_be_bytes());
            hash.update(bytes);
        };
        for table in self.iter() {
            feed(b't', table.definition.create_statement.as_bytes());
            for trigger in &table.definition.triggers {
                feed(b'g', trigger.create_statement.as_bytes());
            }
            for (key, row) in &table.rows {
                for cell in key.0.iter().chain(row) {
                    match cell {
                        Cell::Null => feed(b'n', &[]),
                        Cell::Integer(number) => feed(b'i', &number.to_be_bytes()),
                        Cell::Real(number) => feed(b'r', &number.to_be_bytes()),
                        Cell::Text(text) => feed(b's', text),
                        Cell::Blob(bytes) => feed(b'b', bytes),
                    }
                }
            }
        }
        size
    }
}
