//! Commits, tables and rows as the engine reports them.

use super::object::{ObjectChange, Trigger};
use crate::values::{CommitHash, Timestamp};

/// The author of a commit and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Name of the author.
    pub name: String,
    /// Email address of the author. May be empty.
    pub email: String,
    /// Time of the commit. The engine stores whole seconds.
    pub at: Timestamp,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Hash of the commit.
    pub hash: CommitHash,
    /// Parent commits. The first parent is the previous head of the branch.
    pub parents: Vec<CommitHash>,
    /// Message of the commit.
    pub message: String,
    /// Author and time.
    pub author: Signature,
}

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// SQL NULL.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// A double-precision float. May be infinite but not NaN.
    Real(f64),
    /// Text as stored. Not necessarily valid UTF-8.
    Text(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
}

impl Cell {
    /// Returns the approximate memory size of the value, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Null | Self::Integer(_) | Self::Real(_) => 8,
            Self::Text(bytes) | Self::Blob(bytes) => bytes.len(),
        }
    }
}

/// How a row, table or object differs between two commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Only in the later commit.
    Added,
    /// Only in the earlier commit.
    Removed,
    /// In both commits, with differences.
    Modified,
}

/// A table that differs between two commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableChange {
    /// Name of the table. For a renamed table, the later name.
    pub table: String,
    /// How the table differs.
    pub change: Change,
    /// Whether the definition differs.
    pub schema_changed: bool,
    /// Number of rows added, removed and modified. `None` if counting took too long.
    pub rows: Option<(u64, u64, u64)>,
    /// Indexes and triggers that differ, and the view itself if the table is a view, by kind and name.
    pub objects: Vec<ObjectChange>,
}

/// A row that differs between two commits, with columns in table order.
#[derive(Debug, Clone, PartialEq)]
pub struct RowChange {
    /// The table.
    pub table: String,
    /// How the row differs.
    pub change: Change,
    /// Names and values of the primary key columns. `rowid` for a table without a primary key.
    pub primary_key: Vec<(String, Cell)>,
    /// The row in the earlier commit. `None` if the row was added.
    pub from: Option<Vec<(String, Cell)>>,
    /// The row in the later commit. `None` if the row was removed.
    pub to: Option<Vec<(String, Cell)>>,
}

/// The kind of a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictKind {
    /// Both sides changed the same row.
    Row,
    /// Both sides changed the same definition.
    Schema,
    /// Both sides changed the same view or trigger, of which either can be chosen.
    Object,
    /// The merged rows violate a constraint.
    Constraint,
}

/// A conflict found by a trial merge.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    /// The table.
    pub table: String,
    /// Kind of the conflict.
    pub kind: ConflictKind,
    /// Key of the row, for row and constraint conflicts.
    pub primary_key: Vec<(String, Cell)>,
    /// The row in the merge base.
    pub base: Option<Vec<(String, Cell)>>,
    /// The row on the branch to merge into.
    pub ours: Option<Vec<(String, Cell)>>,
    /// The row on the branch to merge from.
    pub theirs: Option<Vec<(String, Cell)>>,
    /// Description of the problem, for schema and constraint conflicts.
    pub detail: Option<String>,
}

/// Table or view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// A table, which holds rows.
    Table,
    /// A view, which is a stored query.
    View,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    /// Name.
    pub name: String,
    /// Declared type, as written. May be empty.
    pub declared_type: String,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// Default expression, as written.
    pub default: Option<String>,
    /// Whether the column is part of the primary key.
    pub in_primary_key: bool,
    /// Whether the values follow from an expression (`GENERATED ALWAYS AS`).
    pub is_generated: bool,
}

/// An index of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Name.
    pub name: String,
    /// Indexed columns, in order. Expressions are omitted.
    pub columns: Vec<String>,
    /// Whether the index enforces uniqueness.
    pub unique: bool,
}

/// A foreign key of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKey {
    /// Referencing columns.
    pub columns: Vec<String>,
    /// Referenced table.
    pub references_table: String,
    /// Referenced columns. Empty if the key references the primary key.
    pub references_columns: Vec<String>,
}

/// The definition of a table or view at a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    /// Name.
    pub name: String,
    /// Table or view.
    pub kind: TableKind,
    /// Columns in table order.
    pub columns: Vec<TableColumn>,
    /// Columns of the primary key, in key order. Empty if there is no primary key.
    pub primary_key: Vec<String>,
    /// Indexes created by `CREATE INDEX` or by constraints, by name.
    pub indexes: Vec<Index>,
    /// Foreign keys.
    pub foreign_keys: Vec<ForeignKey>,
    /// Triggers, by name.
    pub triggers: Vec<Trigger>,
    /// The `CREATE` statement.
    pub create_statement: String,
}
