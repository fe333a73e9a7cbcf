use branchyard_domain::entities::{
    Change, Commit, Conflict, ConflictKind, ForeignKey, Index, ObjectChange, ObjectKind, RowChange, Signature,
    TableChange, TableColumn, TableKind, TableSchema, Trigger,
};
use branchyard_domain::ports::WritePreview;
use branchyard_domain::values::CommitHash;
use branchyard_http_common::rfc3339;

use super::cells::{cell_max_bytes, row};
use crate::wire;

impl From<&Commit> for wire::Commit {
    fn from(commit: &Commit) -> Self {
        let Commit { hash, parents, message, author } = commit;
        let Signature { name, email, at } = author;
        Self {
            sha: hash.to_string(),
            parents: parents.iter().map(ToString::to_string).collect(),
            message: message.clone(),
            author: wire::CommitAuthor { name: name.clone(), email: email.clone() },
            committed_at: rfc3339(*at),
        }
    }
}

/// Maximum total size of the statements of all objects of a table, in bytes. The longest definition fits twice: before and
/// after.
const STATEMENTS_MAX_BYTES: usize = 2 << 20;

/// Converts the objects that differ. Objects beyond `STATEMENTS_MAX_BYTES` are listed without their statements.
fn objects(changes: &[ObjectChange]) -> Vec<wire::ObjectDiff> {
    let mut room = STATEMENTS_MAX_BYTES;
    let shown = |change: &ObjectChange| {
        let ObjectChange { kind, name, change, from, to } = change;
        let needed = [from, to].into_iter().flatten().map(String::len).sum::<usize>();
        let has_room = needed <= room;
        if has_room {
            room -= needed;
        }
        wire::ObjectDiff {
            kind: match kind {
                ObjectKind::Index => wire::ObjectKind::Index,
                ObjectKind::Trigger => wire::ObjectKind::Trigger,
                ObjectKind::View => wire::ObjectKind::View,
            },
            name: name.clone(),
            change: match change {
                Change::Added => wire::RowChange::Added,
                Change::Removed => wire::RowChange::Removed,
                Change::Modified => wire::RowChange::Modified,
            },
            from: from.clone().filter(|_| has_room),
            to: to.clone().filter(|_| has_room),
        }
    };
    changes.iter().map(shown).collect()
}

impl From<&TableChange> for wire::TableDiff {
    fn from(changed: &TableChange) -> Self {
        let TableChange { table, change, schema_changed, rows, objects: changed_objects } = changed;
        Self {
            table: table.clone(),
            change: match change {
                Change::Added => wire::TableChange::Added,
                Change::Removed => wire::TableChange::Dropped,
                Change::Modified => wire::TableChange::Modified,
            },
            schema_changed: *schema_changed,
            rows_added: rows.map(|(added, _, _)| added),
            rows_removed: rows.map(|(_, removed, _)| removed),
            rows_modified: rows.map(|(_, _, modified)| modified),
            objects: objects(changed_objects),
        }
    }
}

impl From<&RowChange> for wire::RowDiff {
    fn from(changed: &RowChange) -> Self {
        let RowChange { table, change, primary_key, from, to } = changed;
        let mut truncated = Vec::new();
        let cells = [from, to].into_iter().flatten().chain([primary_key]).map(Vec::len).sum();
        let most = cell_max_bytes(cells);
        Self {
            table: table.clone(),
            change: match change {
                Change::Added => wire::RowChange::Added,
                Change::Removed => wire::RowChange::Removed,
                Change::Modified => wire::RowChange::Modified,
            },
            primary_key: row(primary_key, most, &mut truncated),
            from: from.as_ref().map(|cells| row(cells, most, &mut truncated)),
            to: to.as_ref().map(|cells| row(cells, most, &mut truncated)),
            truncated_columns: truncated,
        }
    }
}

/// Converts what a write on `base` would change.
pub(crate) fn preview(base: &CommitHash, preview: &WritePreview) -> wire::SqlPreview {
    let WritePreview { rows_affected, tables } = preview;
    let truncated = tables.iter().filter(|table| table.rows.more);
    wire::SqlPreview {
        base_sha: base.to_string(),
        rows_affected: *rows_affected,
        tables: tables.iter().map(|table| (&table.change).into()).collect(),
        rows: tables.iter().flat_map(|table| &table.rows.rows).map(Into::into).collect(),
        truncated_tables: truncated.map(|table| table.change.table.clone()).collect(),
    }
}

impl From<&Conflict> for wire::Conflict {
    fn from(conflict: &Conflict) -> Self {
        let Conflict { table, kind, primary_key, base, ours, theirs, detail } = conflict;
        let mut truncated = Vec::new();
        let is_row = *kind == ConflictKind::Row;
        let cells = [base, ours, theirs].into_iter().flatten().chain([primary_key]).map(Vec::len).sum();
        let most = cell_max_bytes(cells);
        let has_key = !matches!(kind, ConflictKind::Schema | ConflictKind::Object);
        let key = has_key.then(|| row(primary_key, most, &mut truncated));
        let mut side =
            |cells: &Option<Vec<_>>| is_row.then(|| cells.as_ref().map(|cells| row(cells, most, &mut truncated)));
        let (base, ours, theirs) = (side(base), side(ours), side(theirs));
        Self {
            table: table.clone(),
            kind: match kind {
                ConflictKind::Row => wire::ConflictKind::Row,
                ConflictKind::Schema | ConflictKind::Object => wire::ConflictKind::Schema,
                ConflictKind::Constraint => wire::ConflictKind::Constraint,
            },
            primary_key: key,
            base,
            ours,
            theirs,
            detail: detail.clone().filter(|_| !is_row),
            truncated_columns: truncated,
        }
    }
}

impl From<&TableColumn> for wire::SchemaColumn {
    fn from(column: &TableColumn) -> Self {
        let TableColumn { name, declared_type, nullable, default, in_primary_key, is_generated: _ } = column;
        Self {
            name: name.clone(),
            kind: declared_type.clone(),
            nullable: *nullable,
            default: default.clone(),
            is_primary_key: *in_primary_key,
        }
    }
}

impl From<&Index> for wire::Index {
    fn from(index: &Index) -> Self {
        let Index { name, columns, unique } = index;
        Self { name: name.clone(), columns: columns.clone(), unique: *unique }
    }
}

impl From<&ForeignKey> for wire::ForeignKey {
    fn from(key: &ForeignKey) -> Self {
        let ForeignKey { columns, references_table, references_columns } = key;
        Self {
            columns: columns.clone(),
            references_table: references_table.clone(),
            references_columns: references_columns.clone(),
        }
    }
}

impl From<&Trigger> for wire::Trigger {
    fn from(trigger: &Trigger) -> Self {
        let Trigger { name, create_statement } = trigger;
        Self { name: name.clone(), create_statement: create_statement.clone() }
    }
}

impl From<&TableSchema> for wire::TableSchema {
    fn from(table: &TableSchema) -> Self {
        let TableSchema { name, kind, columns, primary_key, indexes, foreign_keys, triggers, create_statement } = table;
        Self {
            name: name.clone(),
            kind: match kind {
                TableKind::Table => wire::TableKind::Table,
                TableKind::View => wire::TableKind::View,
            },
            columns: columns.iter().map(Into::into).collect(),
            primary_key: primary_key.clone(),
            indexes: indexes.iter().map(Into::into).collect(),
            foreign_keys: foreign_keys.iter().map(Into::into).collect(),
            triggers: triggers.iter().map(Into::into).collect(),
            create_statement: create_statement.clone(),
        }
    }
}
