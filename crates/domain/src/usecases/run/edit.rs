//! Edits of rows.

use std::time::Duration;

use super::{LeasedRun, RunError, blame, failed, reached};
use crate::entities::{CellConflict, EditRequest, FailureKind, OperationFailure, Outcome, Role, RowProblem};
use crate::ports::{MergeOutcome, WriteJob};
use crate::usecases::edits::{self, EditFailure};
use crate::usecases::revisions;
use crate::values::Timestamp;

pub(super) fn run(run: &LeasedRun<'_>, edit: &EditRequest) -> Result<(), RunError> {
    let inner = run.inner;
    let mut tx = inner.ports.metadata.read()?;
    let (database, user) = run.begin(tx.as_mut(), Role::Write)?;
    let from = tx.branches().get(database.id, &edit.branch)?;
    let from = from.ok_or_else(|| failed(FailureKind::NotFound, format!("no branch '{}'", edit.branch)))?.head;
    let was = tx.branches().get(database.id, &edit.to_branch)?.map(|branch| branch.head);
    tx.discard();
    // It may have been hidden since.
    if !revisions::held(inner, database.id, &edit.base)? {
        return Err(failed(FailureKind::NotFound, format!("no commit '{}'", edit.base)));
    }
    let head = was.as_ref().unwrap_or(&from);
    let timeout = Duration::from_millis(inner.limits.write_timeout_ms);
    let engine = inner.ports.engine.as_ref();
    let statements = edits::statements(engine, database.id, edit, head, timeout).map_err(|why| failure(edit, why))?;
    let author = user.signature(inner.now());
    let job = WriteJob {
        base: head,
        statements: &statements.concat(),
        message: &edit.message,
        then_merge: None,
        author: &author,
        timeout,
    };
    let written = engine.write(database.id, &job).map_err(|error| blame(error, edit.rows.len() > 1))?;
    let MergeOutcome::Head(new) = written.outcome else {
        return Err(failed(FailureKind::Internal, "an edit met conflicts"));
    };
    let at = if new == *head { run.made_at(&new)? } else { Timestamp::from_seconds(author.at.as_seconds()) };
    let now = inner.now();
    let mut tx = inner.ports.metadata.write(&run.keys())?;
    run.begin(tx.as_mut(), Role::Write)?;
    run.move_branch(tx.as_mut(), &edit.to_branch, reached(was.as_ref()), &from, (&new, at), now)?;
    let outcome = Outcome {
        commit: Some(new),
        previous: Some(head.clone()),
        rows_affected: Some(written.rows_affected),
        ..Outcome::default()
    };
    run.succeed(tx, outcome, now)
}

/// Converts the reason why an edit cannot be applied into the operation's failure.
fn failure(edit: &EditRequest, why: EditFailure) -> RunError {
    let with = |kind, detail: String, rows: Vec<RowProblem>| RunError::Failed(OperationFailure { kind, detail, rows });
    match why {
        EditFailure::NoSuchTable => failed(FailureKind::NotFound, format!("table not found: {}", edit.table)),
        EditFailure::Rows(rows) => {
            let detail = format!("{} has no row with the key of an edit, or two edits have one key", edit.table);
            with(FailureKind::Content, detail, rows)
        }
        EditFailure::Conflicts { cells, count } => {
            let rows: Vec<RowProblem> = cells.iter().map(CellConflict::problem).collect();
            let changed = if count == 1 { "1 cell".to_owned() } else { format!("{count} cells") };
            let named =
                if count > rows.len() { format!("; the first {} are named", rows.len()) } else { String::new() };
            let detail = format!("{changed} of {} changed since they were read{named}", edit.table);
            with(FailureKind::MergeConflict, detail, rows)
        }
        EditFailure::Incomparable(detail) => {
            let rows = vec![RowProblem { line: 1, column: None, detail: detail.clone() }];
            with(FailureKind::MergeConflict, detail, rows)
        }
        EditFailure::Port(fault) => RunError::Port(fault),
    }
}
