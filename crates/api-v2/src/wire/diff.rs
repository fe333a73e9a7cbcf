use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::{ConflictKind, ObjectKind, RowChange, TableChange, TableKind};

/// Columns and cells in table order, as an object.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(value_type = std::collections::BTreeMap<String, Option<String>>)]
pub(crate) struct Row(#[serde(serialize_with = "columns_as_object")] pub(crate) Vec<(String, Option<String>)>);

/// Serializes the names of columns, each with a value, as an object in the same order.
pub(super) fn columns_as_object<V, S>(columns: &[(String, V)], serializer: S) -> Result<S::Ok, S::Error>
where
    V: Serialize,
    S: Serializer,
{
    serializer.collect_map(columns.iter().map(|(column, value)| (column, value)))
}

/// The author of a commit.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CommitAuthor {
    pub(crate) name: String,
    pub(crate) email: String,
}

/// A commit.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Commit {
    pub(crate) sha: String,
    pub(crate) parents: Vec<String>,
    pub(crate) message: String,
    pub(crate) author: CommitAuthor,
    pub(crate) committed_at: String,
}

/// A changed table.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TableDiff {
    pub(crate) table: String,
    pub(crate) change: TableChange,
    pub(crate) schema_changed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rows_added: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rows_removed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rows_modified: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) objects: Vec<ObjectDiff>,
}

/// An index or trigger of a table that differs, or a view.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ObjectDiff {
    pub(crate) kind: ObjectKind,
    pub(crate) name: String,
    pub(crate) change: RowChange,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<String>,
}

/// A changed row.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct RowDiff {
    pub(crate) table: String,
    pub(crate) change: RowChange,
    pub(crate) primary_key: Row,
    #[schema(required)]
    pub(crate) from: Option<Row>,
    #[schema(required)]
    pub(crate) to: Option<Row>,
    /// Columns with truncated cells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) truncated_columns: Vec<String>,
}

/// What the statements of a write would change.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SqlPreview {
    /// The commit that the statements ran on.
    pub(crate) base_sha: String,
    /// Rows that the statements would insert, update or delete, including changes by triggers.
    pub(crate) rows_affected: u64,
    /// The changed tables, by name, with the numbers of all changed rows.
    pub(crate) tables: Vec<TableDiff>,
    /// The first changed rows of each table, by table and primary key.
    pub(crate) rows: Vec<RowDiff>,
    /// Tables of which more rows would change than `rows` holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) truncated_tables: Vec<String>,
}

/// A conflict that a trial merge found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Conflict {
    pub(crate) table: String,
    pub(crate) kind: ConflictKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) primary_key: Option<Row>,
    /// For conflicts of rows, `null` if the row does not exist on that side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<Option<Row>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ours: Option<Option<Row>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) theirs: Option<Option<Row>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) truncated_columns: Vec<String>,
}

/// A column of a table.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SchemaColumn {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) nullable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) default: Option<String>,
    pub(crate) is_primary_key: bool,
}

/// An index of a table.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Index {
    pub(crate) name: String,
    pub(crate) columns: Vec<String>,
    pub(crate) unique: bool,
}

/// A reference to another table.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ForeignKey {
    pub(crate) columns: Vec<String>,
    pub(crate) references_table: String,
    pub(crate) references_columns: Vec<String>,
}

/// A trigger of a table or view.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Trigger {
    pub(crate) name: String,
    pub(crate) create_statement: String,
}

/// A table or view.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TableSchema {
    pub(crate) name: String,
    pub(crate) kind: TableKind,
    pub(crate) columns: Vec<SchemaColumn>,
    pub(crate) primary_key: Vec<String>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) foreign_keys: Vec<ForeignKey>,
    pub(crate) triggers: Vec<Trigger>,
    pub(crate) create_statement: String,
}
