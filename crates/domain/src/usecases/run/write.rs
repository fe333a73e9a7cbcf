//! SQL writes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{LeasedRun, RunError, blame, conflict, failed, reached};
use crate::entities::{FailureKind, Outcome, Role, Signature};
use crate::ports::{MergeJob, MergeOutcome, WriteJob, Written};
use crate::usecases::revisions;
use crate::values::{CommitHash, DatabaseId, RefName, Timestamp};

/// The input of a write.
pub(super) struct QueuedWrite<'a> {
    pub(super) from_branch: &'a RefName,
    pub(super) to_branch: &'a RefName,
    pub(super) statements: &'a str,
    pub(super) message: &'a str,
    pub(super) expected_head: Option<&'a CommitHash>,
    pub(super) start: Option<&'a CommitHash>,
}

pub(super) fn run(run: &LeasedRun<'_>, write: &QueuedWrite<'_>) -> Result<(), RunError> {
    let QueuedWrite { from_branch, to_branch, statements, message, .. } = *write;
    let inner = run.inner;
    let mut tx = inner.ports.metadata.read()?;
    let (database, user) = run.begin(tx.as_mut(), Role::Write)?;
    let from = tx.branches().get(database.id, from_branch)?.map(|branch| branch.head);
    let was = tx.branches().get(database.id, to_branch)?.map(|branch| branch.head);
    tx.discard();
    let from = match write.start {
        Some(_) if was.is_some() => {
            return Err(failed(FailureKind::Conflict, format!("branch '{to_branch}' already exists")));
        }
        // What named the commit may have been deleted since.
        Some(start) if !revisions::held(inner, database.id, start)? => {
            return Err(failed(FailureKind::NotFound, format!("no commit {start}")));
        }
        Some(start) => start.clone(),
        None => from.ok_or_else(|| failed(FailureKind::NotFound, format!("no branch '{from_branch}'")))?,
    };

    let merge_message = format!("Merge {from_branch} into {to_branch}");
    let base = was.as_ref().unwrap_or(&from);
    if write.expected_head.is_some_and(|expected| expected != base) {
        let detail = format!("the statements would run on commit {base}, not on the expected one");
        return Err(failed(FailureKind::Conflict, detail));
    }
    let then_merge = (from_branch != to_branch).then_some((&from, merge_message.as_str()));
    let author = user.signature(inner.now());
    let written = match statements {
        "" => merge_only(run, database.id, base, then_merge, &author)?,
        _ => {
            let timeout = Duration::from_millis(inner.limits.write_timeout_ms);
            let job = WriteJob { base, statements, message, then_merge, author: &author, timeout };
            inner.ports.engine.write(database.id, &job).map_err(|error| blame(error, true))?
        }
    };
    let head = match written.outcome {
        MergeOutcome::Head(head) => head,
        MergeOutcome::Conflicts(tables) => return Err(conflict(&tables, &BTreeMap::new())),
    };

    // Commit times are whole seconds. After a merge, the head may be an existing commit by another author, so its time is
    // looked up.
    let is_own = from_branch == to_branch && was.is_some() && head != *base;
    let at = if is_own { Timestamp::from_seconds(author.at.as_seconds()) } else { run.made_at(&head)? };
    let now = inner.now();
    let mut tx = inner.ports.metadata.write(&run.keys())?;
    run.begin(tx.as_mut(), Role::Write)?;
    run.move_branch(tx.as_mut(), to_branch, reached(was.as_ref()), &from, (&head, at), now)?;
    let outcome = Outcome {
        commit: Some(head),
        previous: Some(base.clone()),
        rows_affected: Some(written.rows_affected),
        ..Outcome::default()
    };
    run.succeed(tx, outcome, now)
}

/// Runs a write without statements: merges the other branch, which may have nothing new.
fn merge_only(
    run: &LeasedRun<'_>,
    database: DatabaseId,
    ours: &CommitHash,
    other: Option<(&CommitHash, &str)>,
    author: &Signature,
) -> Result<Written, RunError> {
    let outcome = match other {
        None => MergeOutcome::Head(ours.clone()),
        Some((theirs, message)) => {
            let timeout = Duration::from_millis(run.inner.limits.merge_timeout_ms);
            let (resolve, rows, fast_forward) = (&BTreeMap::new(), &[][..], true);
            let job = MergeJob { ours, theirs, message, author, resolve, rows, fast_forward, timeout };
            run.inner.ports.engine.merge(database, &job).map_err(|error| blame(error, false))?
        }
    };
    Ok(Written { outcome, rows_affected: 0 })
}
