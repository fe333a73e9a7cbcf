//! Restores of branches: a branch moves to the commit that one named at an earlier time.

use super::{LeasedRun, RunError, failed};
use crate::entities::{FailureKind, Outcome, Role};
use crate::errors::HistoryError;
use crate::usecases::collections::commit_left_behind;
use crate::usecases::ref_log::{FormerCommit, head_at};
use crate::values::{RefName, Timestamp};

pub(super) fn run(run: &LeasedRun<'_>, branch: &RefName, at: Timestamp, to_branch: &RefName) -> Result<(), RunError> {
    let (inner, engine) = (run.inner, &run.inner.ports.engine);
    let mut tx = inner.ports.metadata.read()?;
    let (database, _) = run.begin(tx.as_mut(), Role::Admin)?;
    if database.is_mirror {
        return Err(failed(FailureKind::Unprocessable, "the database has become a mirror"));
    }
    let head = head_at(inner, tx.as_mut(), &database, branch, at).map_err(failure)?;
    let was = tx.branches().get(database.id, to_branch)?.map(|branch| branch.head);
    let default = tx.branches().get(database.id, &database.default_branch)?.map(|branch| branch.head);
    tx.discard();
    if engine.commit(database.id, &head)?.is_none() {
        return Err(failure(HistoryError::Gone(branch.to_string())));
    }
    let former = match &was {
        Some(was) if !engine.is_ancestor(database.id, was, &head)? => FormerCommit::LeftBehind,
        _ => FormerCommit::Reached,
    };
    let created_from = match (&was, &default) {
        (None, Some(default)) => engine.merge_base(database.id, default, &head)?,
        _ => None,
    };
    let made_at = run.made_at(&head)?;
    let now = inner.now();
    let mut tx = inner.ports.metadata.write(&run.keys())?;
    let (database, _) = run.begin(tx.as_mut(), Role::Admin)?;
    // A pull request may have been withdrawn meanwhile, and what it showed must not come back.
    if head_at(inner, tx.as_mut(), &database, branch, at).map_err(failure)? != head {
        return Err(RunError::Moved);
    }
    if former == FormerCommit::LeftBehind {
        commit_left_behind(inner, tx.as_mut(), database.id, now)?;
    }
    let from = created_from.as_ref().unwrap_or(&head);
    let moved = was.as_ref().map(|was| (was, former));
    run.move_branch(tx.as_mut(), to_branch, moved, from, (&head, made_at), now)?;
    let previous = was.or(created_from);
    run.succeed(tx, Outcome { commit: Some(head), previous, ..Outcome::default() }, now)
}

/// Converts the reason why a branch cannot be restored into the operation's failure.
fn failure(error: HistoryError) -> RunError {
    match error {
        HistoryError::Port(fault) => RunError::Port(fault),
        HistoryError::NoBranch(_) => failed(FailureKind::NotFound, error.to_string()),
        other => failed(FailureKind::Unprocessable, other.to_string()),
    }
}
