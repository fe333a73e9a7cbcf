//! What the engine tells of commits, tables and rows.

use super::object::{ObjectChange, Trigger};
use crate::values::{CommitHash, Timestamp};

/// Who made a commit, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Name of the author.
    pub name: String,
    /// Address of the author; may be empty.
    pub email: String,
    /// When; the engine keeps whole seconds.
    pub at: Timestamp,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its hash.
    pub hash: CommitHash,
    /// What it was made from; the first parent is the branch it was made on.
    pub parents: Vec<CommitHash>,
    /// What it says.
    pub message: String,
    /// Who and when.
    pub author: Signature,
}

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// No value.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// A double; may be infinite, never NaN.
    Real(f64),
    /// Text as stored; not necessarily valid UTF-8.
    Text(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
}

impl Cell {
    /// Bytes of memory its value takes up, about.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Null | Self::Integer(_) | Self::Real(_) => 8,
            Self::Text(bytes) | Self::Blob(bytes) => bytes.len(),
        }
    }
}

/// What happened to a row or a table between two commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Only in the later commit.
    Added,
    /// Only in the earlier commit.
    Removed,
    /// In both, differently.
    Modified,
}

/// A table that differs between two commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableChange {
    /// Its name (the later one).
    pub table: String,
    /// What happened to it.
    pub change: Change,
    /// Whether its definition differs.
    pub schema_changed: bool,
    /// Rows added, removed and modified; `None` when counting took too long.
    pub rows: Option<(u64, u64, u64)>,
    /// Its indexes and triggers that differ, and the view itself if it is one, by kind and name.
    pub objects: Vec<ObjectChange>,
}

/// A row that differs between two commits. Columns stand in table order.
#[derive(Debug, Clone, PartialEq)]
pub struct RowChange {
    /// Its table.
    pub table: String,
    /// What happened to it.
    pub change: Change,
    /// Names and values of the primary key; `rowid` for a table without one.
    pub primary_key: Vec<(String, Cell)>,
    /// The row in the earlier commit.
    pub from: Option<Vec<(String, Cell)>>,
    /// The row in the later commit.
    pub to: Option<Vec<(String, Cell)>>,
}

/// What kind of thing two sides disagree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictKind {
    /// Both changed the same row.
    Row,
    /// Both changed the same definition.
    Schema,
    /// The merged rows break a constraint.
    Constraint,
}

/// Something a trial merge could not settle.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    /// The table.
    pub table: String,
    /// What kind.
    pub kind: ConflictKind,
    /// Key of the row (row and constraint conflicts).
    pub primary_key: Vec<(String, Cell)>,
    /// The row both sides started from.
    pub base: Option<Vec<(String, Cell)>>,
    /// The row on the branch merged into.
    pub ours: Option<Vec<(String, Cell)>>,
    /// The row on the branch merged from.
    pub theirs: Option<Vec<(String, Cell)>>,
    /// What is wrong (schema and constraint conflicts).
    pub detail: Option<String>,
}

/// Table or view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// Holds rows.
    Table,
    /// A stored query.
    View,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    /// Name.
    pub name: String,
    /// Declared type, as written; may be empty.
    pub declared_type: String,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// Default expression, as written.
    pub default: Option<String>,
    /// Whether it is part of the primary key.
    pub in_primary_key: bool,
}

/// An index of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Name.
    pub name: String,
    /// Indexed columns, in order; expressions are left out.
    pub columns: Vec<String>,
    /// Whether values are distinct.
    pub unique: bool,
}

/// A reference to another table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKey {
    /// Columns that refer.
    pub columns: Vec<String>,
    /// The table referred to.
    pub references_table: String,
    /// Its columns; empty when its primary key is meant.
    pub references_columns: Vec<String>,
}

/// Definition of a table or view at a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    /// Name.
    pub name: String,
    /// Table or view.
    pub kind: TableKind,
    /// Columns in table order.
    pub columns: Vec<TableColumn>,
    /// Columns of the primary key, in key order; empty without one.
    pub primary_key: Vec<String>,
    /// Indexes made by CREATE INDEX or by constraints, by name.
    pub indexes: Vec<Index>,
    /// References to other tables.
    pub foreign_keys: Vec<ForeignKey>,
    /// Triggers, by name.
    pub triggers: Vec<Trigger>,
    /// The statement that made it.
    pub create_statement: String,
}
