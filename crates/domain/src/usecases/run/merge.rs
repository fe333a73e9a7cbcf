//! Merges of pull requests.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::pulls;
use super::{LeasedRun, RunError, blame, conflict, failed, pull_failure, reached};
use crate::entities::{FailureKind, Outcome, PullAction, PullHeads, PullState, Role, RowResolution, Side};
use crate::ports::{MergeJob, MergeOutcome, WriteKey};
use crate::values::PullNumber;

/// What was decided about a merge.
#[derive(Clone, Copy)]
pub(super) struct MergeDecisions<'a> {
    pub(super) resolve: &'a BTreeMap<String, Side>,
    pub(super) rows: &'a [RowResolution],
    pub(super) fast_forward: bool,
}

pub(super) fn run(
    run: &LeasedRun<'_>,
    number: PullNumber,
    message: &str,
    decisions: MergeDecisions<'_>,
) -> Result<(), RunError> {
    let MergeDecisions { resolve, rows, fast_forward } = decisions;
    let inner = run.inner;
    let mut tx = inner.ports.metadata.read()?;
    let (database, user) = run.begin(tx.as_mut(), Role::Write)?;
    let pull = tx.pulls().get(database.id, number)?.ok_or_else(|| failed(FailureKind::NotFound, "no such pull"))?;
    if pull.state != PullState::Open {
        return Err(failed(FailureKind::Unprocessable, "the pull request is no longer open"));
    }
    let (ours, theirs) = pulls::heads(tx.as_mut(), &pull).map_err(pull_failure)?;
    tx.discard();

    if !pull.is_within() {
        inner.ports.engine.fetch(database.id, pull.from_database_id, &theirs)?;
    }
    let at = pulls::edges(inner, database.id, ours, theirs).map_err(pull_failure)?;
    let author = user.signature(inner.now());
    let timeout = Duration::from_millis(inner.limits.merge_timeout_ms);
    let (ours, theirs, author) = (&at.ours, &at.theirs, &author);
    let job = MergeJob { ours, theirs, message, author, resolve, rows, fast_forward, timeout };
    let head = match inner.ports.engine.merge(database.id, &job).map_err(|error| blame(error, false))? {
        MergeOutcome::Head(head) => head,
        MergeOutcome::Conflicts(tables) => return Err(conflict(&tables, resolve)),
    };

    let made_at = run.made_at(&head)?;
    let now = inner.now();
    let mut tx = inner.ports.metadata.write(&run.keys().and(WriteKey::Database(pull.from_database_id)))?;
    run.begin(tx.as_mut(), Role::Write)?;
    let mut pull = tx.pulls().get(database.id, number)?.ok_or_else(|| failed(FailureKind::NotFound, "no such pull"))?;
    pull.merge(now, user.name.clone(), head.clone(), at.base.clone(), at.theirs.clone())
        .map_err(|error| failed(FailureKind::Unprocessable, error.to_string()))?;
    pull.content.heads = Some(PullHeads { from: at.theirs.clone(), to: at.ours.clone() });
    pull.updated_at = now;
    pulls::update(tx.as_mut(), &mut pull).map_err(pull_failure)?;
    run.move_branch(tx.as_mut(), &pull.to_branch, reached(Some(&at.ours)), &at.ours, (&head, made_at), now)?;
    pulls::emit_pull(inner, tx.as_mut(), &pull, PullAction::Merged, &user, now)?;
    let outcome = Outcome { commit: Some(head), previous: Some(at.ours), pull: Some(number), ..Outcome::default() };
    run.succeed(tx, outcome, now)
}
