//! The preview of statements that change data: what they would change, and what stands out in their text.

use branchyard_domain::access::{DatabaseAccess, Write};
use branchyard_domain::usecases::{PreviewEnd, PreviewReport, SqlWrite, StatementNotes};
use branchyard_http_common::{ApiError, preview_refusal, statement_failure};

use crate::changes::Changes;
use crate::database::DatabaseFrame;
use crate::error_page::{PageError, sentence};
use crate::format;
use crate::forms::FormPost;

/// A preview as the page shows it.
pub(super) struct PreviewView {
    /// The branch that a commit goes to.
    pub(super) target: String,
    /// Whether that branch is created by the commit.
    pub(super) is_new_branch: bool,
    /// The commit that the statements ran on.
    pub(super) base: String,
    /// Number of rows that the statements change.
    pub(super) affected: Option<String>,
    pub(super) changes: Option<Changes>,
    /// Tables with more changed rows than are shown.
    pub(super) truncated: Vec<String>,
    /// Why the statements cannot be previewed.
    pub(super) refusal: Option<String>,
    pub(super) warnings: Vec<String>,
}

impl PreviewView {
    /// Returns `true` if there is nothing to commit.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.as_ref().is_some_and(|changes| changes.tables.is_empty())
    }
}

/// How a preview ended.
pub(super) enum Tried {
    Shown(Box<PreviewView>),
    /// A statement fails.
    Failed(String),
}

/// Runs a preview. `has_moved` says that the branch moved since the last one.
pub(super) async fn run(
    posted: &FormPost,
    access: &DatabaseAccess<Write>,
    frame: &DatabaseFrame,
    wanted: SqlWrite,
    has_moved: bool,
) -> Result<Tried, PageError> {
    let notes = StatementNotes::of(&wanted.statements);
    let (target, is_new_branch) = (wanted.to_branch.to_string(), wanted.start.is_some());
    let access = access.clone();
    let previewed = posted
        .write(move |hub| -> Result<_, ApiError> { Ok(hub.operations().preview_write(&access, &wanted)?) })
        .await?;
    let PreviewReport { base, end } = previewed;
    let mut warnings = Vec::new();
    if has_moved {
        warnings.push(format!(
            "{target} has moved since you previewed these statements, and nothing was committed. The result may differ; this is a new preview."
        ));
    }
    for change in notes.unlimited {
        let (verb, table) = (change.verb, change.table);
        warnings.push(format!("{verb} on {table} has no WHERE, so it applies to every row."));
    }
    if notes.varies {
        warnings.push(
            "These statements use the time, random numbers or similar values. They run again when you commit, so the result may differ."
                .to_owned(),
        );
    }
    let mut view = PreviewView {
        target,
        is_new_branch,
        base: base.to_string(),
        affected: None,
        changes: None,
        truncated: Vec::new(),
        refusal: None,
        warnings,
    };
    match end {
        PreviewEnd::Changes(preview) => {
            let affected = Some(preview.rows_affected).filter(|rows| *rows > 0);
            view.affected = affected.map(|rows| format::counted(rows, "row", "rows"));
            let truncated = preview.tables.iter().filter(|table| table.rows.more);
            view.truncated = truncated.map(|table| table.change.table.clone()).collect();
            view.changes = Some(Changes::of_preview(preview, |table| frame.table_path(table)));
        }
        PreviewEnd::Refused(refusal) => view.refusal = Some(sentence(preview_refusal(refusal))),
        PreviewEnd::Failed { failure, statement } => {
            return Ok(Tried::Failed(sentence(&statement_failure(&failure, statement))));
        }
    }
    Ok(Tried::Shown(Box::new(view)))
}
