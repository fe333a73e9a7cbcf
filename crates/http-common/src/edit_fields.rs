//! The fields of an edit of rows, in API v2 and in requests of the grid.

use branchyard_domain::entities::RowEdit;
use branchyard_domain::usecases::{NewEdit, Operations};
use branchyard_domain::values::{CommitPrefix, LongText, RefName};

use crate::fields::Fields;
use crate::words::Words;

#[derive(Clone, Copy, PartialEq, Eq)]
enum EditWord {
    Insert,
    Update,
    Delete,
}

const OPS: Words<EditWord> =
    Words::inline(&[("insert", EditWord::Insert), ("update", EditWord::Update), ("delete", EditWord::Delete)]);

/// Reads the fields of an edit, without the table, which the path of a request names.
pub fn edit_fields(fields: &Fields<'_>) -> Option<NewEdit> {
    let branch = fields.doc("The branch that was edited.").required_text("branch");
    let base = fields.doc("The commit whose rows were shown.").required::<CommitPrefix>("base");
    let to_branch = fields
        .doc("The branch to commit to, created from the head of `branch` if missing. Default: `branch`.")
        .optional::<RefName>("to_branch");
    let message = fields.optional::<LongText>("message");
    let rows = fields.doc("At least 1, at most 10,000. The values of one have at most 1 MiB as SQL, where a byte of a BLOB takes two.").required_objects("rows", row);
    let most = Operations::MOST_EDITED_ROWS;
    match rows.as_ref().map(Vec::len) {
        Some(0) => fields.fault("rows", "must not be empty"),
        Some(count) if count > most => {
            fields.fault("rows", format!("has {count} rows; at most {most} are edited at once"))
        }
        Some(_) | None => {}
    }
    Some(NewEdit { branch: branch?, to_branch, base: base?, table: String::new(), rows: rows?, message })
}

fn row(fields: &Fields<'_>) -> Option<RowEdit> {
    let op = fields.required_choice("op", &OPS);
    let key = fields.cells("key");
    let set = fields.cells("set");
    let (op, key, set) = (op?, key?, set?);
    let required: &[&'static str] = match op {
        EditWord::Insert => &["set"],
        EditWord::Update => &["key", "set"],
        EditWord::Delete => &["key"],
    };
    let lacking: Vec<&str> = required.iter().copied().filter(|name| !fields.has(name)).collect();
    lacking.iter().for_each(|name| fields.fault(name, "is required"));
    if !lacking.is_empty() {
        return None;
    }
    match op {
        EditWord::Insert if fields.has("key") => {
            fields.fault("key", "belongs to update and delete");
            None
        }
        EditWord::Insert => Some(RowEdit::Insert { set }),
        EditWord::Update => Some(RowEdit::Update { key, set }),
        EditWord::Delete if fields.has("set") => {
            fields.fault("set", "belongs to insert and update");
            None
        }
        EditWord::Delete => Some(RowEdit::Delete { key }),
    }
}
