//! `POST /{owner}/{database}/pulls/{number}/merge`

use std::collections::BTreeMap;

use branchyard_domain::access::Write;
use branchyard_domain::entities::{Cell, Pull, ResolvedRow, RowResolution, Side};
use branchyard_domain::errors::{PortError, PullError};
use branchyard_domain::usecases::MergePull;
use branchyard_domain::values::LongText;
use branchyard_http_common::parse_key_parameter;

use super::{PullTab, open};
use crate::error_page::PageError;
use crate::forms::{Form, FormPost};
use crate::page_context::PageResult;
use crate::settled;

/// Queues the merge. The page of the pull request shows its progress.
pub(crate) async fn send(posted: FormPost) -> PageResult {
    let (access, _, pull, head) = open::<Write>(&posted, PullTab::Conversation).await?;
    let message = match LongText::parse(posted.form.text("message")) {
        Ok(message) => message,
        Err(error) => return posted.redirect_saying(&head.path, &format!("Not merged: {error}.")),
    };
    let rows = match row_decisions(&posted.form) {
        Ok(rows) => rows,
        Err(text) => return posted.redirect_saying(&head.path, &format!("Not merged: {text}.")),
    };
    if let Some(table) = undecided(&posted.form) {
        let text = format!("Not merged: choose a side for {table}, or for each of its rows.");
        return posted.redirect_saying(&format!("{}/conflicts", head.path), &text);
    }
    // A message of one's own needs a commit to be in.
    let is_own = !matches!(message.as_str().trim(), "") && message.as_str() != default_message(&pull);
    let fast_forward = !is_own && !posted.form.is_checked("merge_commit");
    let how = MergePull { message: Some(message), resolve: decisions(&posted.form), rows, fast_forward };
    let accepted =
        posted.write(move |hub| Ok::<_, PortError>(hub.pulls().merge(&access, pull.number, how, None))).await?;
    match accepted {
        Ok(operation) => {
            settled::soon(&posted, operation.id).await;
            posted.redirect(&head.path)
        }
        Err(
            error @ (PullError::Merging(_)
            | PullError::State(_)
            | PullError::BranchMissing(_)
            | PullError::QueueFull(_)
            | PullError::Quota(_)),
        ) => posted.redirect_saying(&head.path, &format!("Not merged: {error}.")),
        Err(error) => Err(PageError::refused(error.into(), posted.request())),
    }
}

/// Returns the message of a merge that a form proposes.
pub(super) fn default_message(pull: &Pull) -> String {
    format!("Merge pull request #{}: {}", pull.number, pull.title)
}

/// Returns the decisions about rows, from the fields `row-table-0`, `row-key-0` and `row-side-0`, and so on. A side `value` has the
/// columns `row-0-column-0` with the values `row-0-value-0`, or NULL if `row-0-null-0` is checked.
fn row_decisions(form: &Form) -> Result<Vec<RowResolution>, String> {
    let mut rows = Vec::new();
    for (at, (table, word)) in chosen(form, "row-").enumerate() {
        let becomes = match word.as_str() {
            "value" => ResolvedRow::With(values(form, at)),
            word => match side(word) {
                Some(side) => ResolvedRow::Of(side),
                None => continue,
            },
        };
        let primary_key =
            parse_key_parameter(&form.text(&format!("row-key-{at}"))).map_err(|faults| faults.join("; "))?;
        rows.push(RowResolution { table, primary_key, becomes });
        if rows.len() > MergePull::MOST_ROWS {
            return Err(format!("at most {} rows can be resolved one by one", MergePull::MOST_ROWS));
        }
    }
    Ok(rows)
}

fn values(form: &Form, row: usize) -> Vec<(String, Cell)> {
    let fields = (0..).map_while(|at| {
        let column = form.text(&format!("row-{row}-column-{at}"));
        if column.is_empty() {
            return None;
        }
        let cell = match form.is_checked(&format!("row-{row}-null-{at}")) {
            true => Cell::Null,
            false => Cell::Text(form.text(&format!("row-{row}-value-{at}")).into_bytes()),
        };
        Some((column, cell))
    });
    fields.collect()
}

/// Returns tables and what was chosen, from the fields `table-0` and `side-0`, `table-1` and `side-1`, and so on, with a prefix.
fn chosen<'f>(form: &'f Form, prefix: &'f str) -> impl Iterator<Item = (String, String)> + 'f {
    (0..).map_while(move |at| {
        let table = form.text(&format!("{prefix}table-{at}"));
        (!table.is_empty()).then(|| (table, form.line(&format!("{prefix}side-{at}"))))
    })
}

fn side(word: &str) -> Option<Side> {
    match word {
        "ours" => Some(Side::Ours),
        "theirs" => Some(Side::Theirs),
        _ => None,
    }
}

/// Returns a table for which no side is chosen, and not for each of its rows either.
fn undecided(form: &Form) -> Option<String> {
    let rows: Vec<(String, String)> = chosen(form, "row-").collect();
    let is_decided = |table: &str| {
        let mut words = rows.iter().filter(|(of, _)| of == table).map(|(_, word)| word).peekable();
        words.peek().is_some() && words.all(|word| !word.is_empty())
    };
    chosen(form, "").find(|(table, word)| side(word).is_none() && !is_decided(table)).map(|(table, _)| table)
}

/// Returns the chosen side per table.
fn decisions(form: &Form) -> BTreeMap<String, Side> {
    chosen(form, "").filter_map(|(table, word)| Some((table, side(&word)?))).collect()
}
