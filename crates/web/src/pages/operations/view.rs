//! Descriptions of operations.

use branchyard_domain::entities::{
    ImportMode, Operation, OperationFailure, OperationStatus, Outcome, PushTarget, RowProblem, Work,
};
use branchyard_domain::values::{OperationId, Timestamp};

use crate::database::DatabaseFrame;
use crate::format::{self, Markup};
use crate::paths;

/// The label of the commit message.
const MESSAGE: &str = "Message";

/// A result of an operation.
pub(crate) struct OperationLink {
    pub(crate) label: &'static str,
    pub(crate) text: String,
    pub(crate) href: String,
}

/// An operation as pages show it.
pub(crate) struct OperationView {
    pub(crate) id: OperationId,
    pub(crate) title: String,
    pub(crate) href: String,
    /// `Queued`, `Running`, `Succeeded`, `Failed`.
    pub(crate) status: &'static str,
    /// The status as a class in the style sheet.
    pub(crate) class: &'static str,
    pub(crate) is_settled: bool,
    pub(crate) by: String,
    pub(crate) created: Markup,
    /// How long the operation ran, or has been running.
    pub(crate) took: Option<String>,
    pub(crate) attempts: u32,
    /// The parameters of the operation that its title does not mention.
    pub(crate) facts: Vec<(&'static str, String)>,
    /// The statements of a SQL write.
    pub(crate) statements: Option<String>,
    pub(crate) results: Vec<OperationLink>,
    pub(crate) rows: Option<String>,
    /// Why it failed.
    pub(crate) failure: Option<String>,
    /// The records of the file that could not be imported.
    pub(crate) problems: Vec<RowProblem>,
}

impl OperationView {
    /// Describes an operation of the frame's database. The result is included only if the viewer can see it.
    pub(crate) fn of(operation: &Operation, frame: &DatabaseFrame, now: Timestamp, sees_result: bool) -> Self {
        let (title, mut facts, statements) = work(&operation.work);
        if operation.is_concealed() {
            facts.retain(|(label, _)| *label != MESSAGE);
            facts.push(("Commit", "no longer reachable".to_owned()));
        }
        let (status, class) = status(&operation.status);
        let (results, rows) = match &operation.status {
            OperationStatus::Succeeded(outcome) if sees_result => results(operation, outcome, frame),
            _ => (Vec::new(), None),
        };
        let failure = match &operation.status {
            OperationStatus::Failed(failure) => Some(failure),
            _ => None,
        };
        let end = operation.finished_at.unwrap_or(now);
        Self {
            id: operation.id,
            title,
            href: format!("{}/operations/{}", frame.path, operation.id),
            status,
            class,
            is_settled: operation.settled(),
            by: operation.created_by_name.to_string(),
            created: format::when(operation.created_at, now),
            took: operation.started_at.map(|start| span(end.as_micros() - start.as_micros())),
            attempts: operation.attempts,
            facts,
            statements,
            results,
            rows,
            failure: failure.map(|failure: &OperationFailure| crate::error_page::sentence(&failure.detail)),
            problems: failure.map(|failure| failure.rows.clone()).unwrap_or_default(),
        }
    }
}

fn status(status: &OperationStatus) -> (&'static str, &'static str) {
    match status {
        OperationStatus::Queued => ("Queued", "waits"),
        OperationStatus::Running => ("Running", "runs"),
        OperationStatus::Succeeded(_) => ("Succeeded", "good"),
        OperationStatus::Failed(failure) => match failure.kind {
            branchyard_domain::entities::FailureKind::Canceled => ("Canceled", "waits"),
            _ => ("Failed", "bad"),
        },
    }
}

fn work(work: &Work) -> (String, Vec<(&'static str, String)>, Option<String>) {
    match work {
        Work::SqlWrite { from_branch, to_branch, statements, message, expected_head: _, start } => {
            let mut facts = vec![(MESSAGE, message.clone())];
            if let Some(start) = start {
                facts.push(("Branch created at", start.to_string()));
            }
            if from_branch != to_branch {
                facts.push(("From branch", from_branch.to_string()));
            }
            let statements = Some(statements.clone()).filter(|text| !text.is_empty());
            (format!("Write to {to_branch}"), facts, statements)
        }
        Work::Merge { pull, ends, message, .. } => {
            let facts = vec![
                ("From", format!("{} {}", ends.from, ends.from_branch)),
                ("Into", ends.to_branch.to_string()),
                (MESSAGE, message.clone()),
            ];
            (format!("Merge pull request #{pull}"), facts, None)
        }
        Work::Fork { owner, .. } => (format!("Fork to {owner}"), Vec::new(), None),
        Work::Edit(edit) => {
            let mut facts = vec![(MESSAGE, edit.message.clone())];
            if edit.branch != edit.to_branch {
                facts.push(("From branch", edit.branch.to_string()));
            }
            (format!("Edit {} on {}", edit.table, edit.to_branch), facts, None)
        }
        Work::Purge => ("Purge deleted history".to_owned(), Vec::new(), None),
        Work::MirrorSync => ("Sync with the source".to_owned(), Vec::new(), None),
        Work::Restore { branch, at, to_branch } => {
            let facts = vec![
                ("Branch", branch.to_string()),
                ("As of", format::utc(*at).format("%Y-%m-%dT%H:%M:%SZ").to_string()),
            ];
            (format!("Restore {to_branch}"), facts, None)
        }
        Work::Push(push) => match &push.target {
            PushTarget::Branch { name, is_forced: false } => (format!("Push to {name}"), Vec::new(), None),
            PushTarget::Branch { name, is_forced: true } => (format!("Forced push to {name}"), Vec::new(), None),
            PushTarget::Tag { name, message, .. } => {
                let facts = message.iter().map(|message| (MESSAGE, message.clone())).collect();
                (format!("Push of tag {name}"), facts, None)
            }
        },
        Work::Import(import) => {
            let mut facts = vec![("Branch", import.branch.to_string()), ("Mode", mode(import.mode).to_owned())];
            if let Some(branch) = &import.pull_branch {
                facts.push(("Pull request from", branch.to_string()));
            }
            if !import.primary_keys.is_empty() {
                facts.push(("Primary key", import.primary_keys.join(", ")));
            }
            facts.push((MESSAGE, import.message.clone()));
            let title = match import.table.as_str() {
                "" => format!("Import {}", import.file_name),
                table => format!("Import {} into {table}", import.file_name),
            };
            (title, facts, None)
        }
    }
}

const fn mode(mode: ImportMode) -> &'static str {
    match mode {
        ImportMode::Create => "new table",
        ImportMode::Overwrite => "replace table",
        ImportMode::Update => "add and update rows by key",
        ImportMode::Replace => "replace all rows, keep columns",
    }
}

fn results(operation: &Operation, outcome: &Outcome, frame: &DatabaseFrame) -> (Vec<OperationLink>, Option<String>) {
    let mut links = Vec::new();
    if let Work::Import(import) = &operation.work
        && !import.table.is_empty()
    {
        let branch = import.pull_branch.as_ref().unwrap_or(&import.branch);
        let href = paths::with_query(&frame.table_path(&import.table), &[("ref", branch.as_str())]);
        links.push(OperationLink { label: "Table", text: import.table.clone(), href });
    }
    if let Some((_, locator)) = &outcome.database {
        links.push(OperationLink { label: "Database", text: locator.to_string(), href: paths::database(locator) });
    }
    if let Some(pull) = outcome.pull {
        links.push(OperationLink {
            label: "Pull request",
            text: format!("#{pull}"),
            href: format!("{}/pulls/{pull}", frame.path),
        });
    }
    if let Some(commit) = &outcome.commit {
        links.push(OperationLink { label: "Commit", text: format::short(commit), href: frame.commit(commit) });
    }
    (links, outcome.rows_affected.map(|rows| format::counted(rows, "row changed", "rows changed")))
}

/// Formats a duration in microseconds with the precision of a page. Libraries print all digits.
fn span(micros: i64) -> String {
    let millis = micros.max(0) / 1_000;
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn spans_are_told_by_their_largest_unit() {
        assert_eq!(span(-5), "0 ms");
        assert_eq!(span(999_999), "999 ms");
        assert_eq!(span(1_000_000), "1.0 s");
        assert_eq!(span(59_999_999), "59.9 s");
        assert_eq!(span(60_000_000), "1 min 0 s");
    }
}
