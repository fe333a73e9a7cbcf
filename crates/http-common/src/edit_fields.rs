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
    let rows = fields
        .doc("At least 1, at most 10,000. The values of one have at most 1 MiB as SQL, where a byte of a BLOB takes two.")
        .required_objects("rows", row);
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
    // Whether the operation has a key, and whether it sets values. What it has is required, and what it has not is refused.
    let (has_key, has_set) = match op {
        EditWord::Insert => (false, true),
        EditWord::Update => (true, true),
        EditWord::Delete => (true, false),
    };
    let keeps = |name: &'static str, belongs: bool, others: &str| {
        let fault = match (belongs, fields.has(name)) {
            (true, true) | (false, false) => return true,
            (true, false) => "is required".to_owned(),
            (false, true) => format!("belongs to {others}"),
        };
        fields.fault(name, fault);
        false
    };
    let keeps_key = keeps("key", has_key, "update and delete");
    let keeps_set = keeps("set", has_set, "insert and update");
    (keeps_key && keeps_set).then_some(match op {
        EditWord::Insert => RowEdit::Insert { set },
        EditWord::Update => RowEdit::Update { key, set },
        EditWord::Delete => RowEdit::Delete { key },
    })
}
