//! Pushes: the chunks that a client uploaded become a part of the database, and a branch or a tag moves to the commit that they
//! make up.
//!
//! Until the last step, the chunks are garbage that no ref names. Those of a push that fails go with the next collection.

use std::time::{Duration, Instant};

use super::{LeasedRun, RunError, failed};
use crate::entities::{Branch, Database, EventKind, FailureKind, Outcome, PushRequest, PushTarget, Role, Tag};
use crate::ports::{EngineError, MetadataError, PushedHistory, SizeChange, Transaction};
use crate::usecases::collections::{commit_left_behind, record_file};
use crate::usecases::outbox::emit;
use crate::usecases::pushes::pusher_of;
use crate::usecases::ref_log::{FormerCommit, ref_change};
use crate::usecases::{PushPhase, revisions};
use crate::values::{CommitHash, RefName, Timestamp};

pub(super) fn run(run: &LeasedRun<'_>, request: &PushRequest) -> Result<(), RunError> {
    let inner = run.inner;
    let mut tx = inner.ports.metadata.read()?;
    let (database, _) = run.begin(tx.as_mut(), Role::Write)?;
    refuse_changed(tx.as_mut(), &database, request)?;
    tx.discard();
    let (mut taken, mut made_at) = (None, None);
    if !revisions::held(inner, database.id, &request.commit)? {
        let brought = bring_in(run, &database, &request.commit)?;
        (taken, made_at) = (Some(brought.uploaded), brought.made_at);
        check(run, &database, request)?;
    }
    let made_at = made_at.map_or_else(|| run.made_at(&request.commit), Ok)?;
    let created_from = match &request.target {
        PushTarget::Branch { is_forced, .. } => start_of(run, &database, request, *is_forced)?,
        PushTarget::Tag { .. } => None,
    };
    timed(run, PushPhase::Save, || save(run, request, created_from.as_ref(), made_at))?;
    // The client has its answer by now, and may upload its next push.
    if let Some((store, bytes)) = inner.ports.pushed_chunks.as_ref().zip(taken) {
        store.remove_taken(pusher_of(&run.operation), bytes);
    }
    Ok(())
}

fn timed<T>(run: &LeasedRun<'_>, phase: PushPhase, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = work();
    run.inner.push_phases.announce(phase, begun.elapsed());
    result
}

/// Fails if the ref is not as it was when the push was accepted.
fn refuse_changed(tx: &mut dyn Transaction, database: &Database, request: &PushRequest) -> Result<(), RunError> {
    let changed = || failed(FailureKind::Conflict, "the branch or tag has changed since the push was accepted");
    let present = match &request.target {
        PushTarget::Branch { .. } if request.replaces_first => {
            tx.branches().get(database.id, &database.default_branch)?.map(|branch| branch.head)
        }
        PushTarget::Branch { name, .. } => tx.branches().get(database.id, name)?.map(|branch| branch.head),
        PushTarget::Tag { name, .. } => {
            if tx.releases().get(database.id, name)?.is_some() {
                let detail = format!("a release uses tag '{name}'; delete the release first");
                return Err(failed(FailureKind::Unprocessable, detail));
            }
            tx.tags().get(database.id, name)?.map(|tag| tag.commit)
        }
    };
    if present == request.was { Ok(()) } else { Err(changed()) }
}

/// What was brought into the file of a database.
struct Brought {
    /// How many bytes had been uploaded.
    uploaded: u64,
    /// When the commit was made.
    made_at: Option<Timestamp>,
}

/// Adds the uploaded chunks below a commit to the file of the database.
fn bring_in(run: &LeasedRun<'_>, database: &Database, commit: &CommitHash) -> Result<Brought, RunError> {
    let (inner, engine) = (run.inner, &run.inner.ports.engine);
    let lacking = || failed(FailureKind::NotFound, "something that the commit names was not uploaded");
    let store = inner.ports.pushed_chunks.as_ref();
    let pushed = store.map(|store| store.open(pusher_of(&run.operation))).transpose()?.flatten().ok_or_else(lacking)?;
    let uploaded = pushed.metadata().map_or(0, |metadata| metadata.len());
    let made_at = timed(run, PushPhase::Walk, || {
        match engine.examine_push(database.id, &pushed, std::slice::from_ref(commit))? {
            PushedHistory::Lacking => Err(lacking()),
            PushedHistory::Malformed(reason) => Err(failed(FailureKind::Content, reason)),
            PushedHistory::Complete { known, dates } => {
                // The file has more commits than the database shows, which a pusher who has only their hashes must not adopt.
                let parents = vec![Vec::new(); known.len()];
                let is_held = revisions::all_held(inner, database.id, &known, &parents)?;
                let is_held = is_held.iter().all(|is_held| *is_held);
                if is_held { Ok(dates.into_iter().next().flatten()) } else { Err(lacking()) }
            }
        }
    })?;
    timed(run, PushPhase::Put, || match engine.take_over_push(database.id, &pushed, std::slice::from_ref(commit)) {
        Err(EngineError::NoSuchCommit(_)) => Err(lacking()),
        other => Ok(other?),
    })?;
    Ok(Brought { uploaded, made_at })
}

/// Checks the content of the commit.
fn check(run: &LeasedRun<'_>, database: &Database, request: &PushRequest) -> Result<(), RunError> {
    let inner = run.inner;
    let mut tx = inner.ports.metadata.read()?;
    let trusted = match &request.was {
        Some(was) if !request.replaces_first => Some(was.clone()),
        Some(_) => None,
        None => tx.branches().get(database.id, &database.default_branch)?.map(|branch| branch.head),
    };
    tx.discard();
    let timeout = Duration::from_millis(inner.limits.push_check_timeout_ms);
    let engine = &inner.ports.engine;
    let problems =
        timed(run, PushPhase::Check, || engine.check_commit(database.id, &request.commit, trusted.as_ref(), timeout))?;
    match problems.first() {
        None => Ok(()),
        Some(first) => {
            let more = match problems.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            Err(failed(FailureKind::Content, format!("the pushed commit is not accepted: {first}{more}")))
        }
    }
}

/// Returns the commit from which the history of a new branch counts. Fails if an existing branch would lose commits.
fn start_of(
    run: &LeasedRun<'_>,
    database: &Database,
    request: &PushRequest,
    is_forced: bool,
) -> Result<Option<CommitHash>, RunError> {
    let (inner, engine) = (run.inner, &run.inner.ports.engine);
    match &request.was {
        _ if request.replaces_first => Ok(None),
        Some(_) if is_forced => Ok(None),
        Some(was) if engine.is_ancestor(database.id, was, &request.commit)? => Ok(None),
        Some(_) => Err(failed(
            FailureKind::MergeConflict,
            "the branch has commits that this push does not have; pull first, or push with --force",
        )),
        None => {
            let mut tx = inner.ports.metadata.read()?;
            let default = tx.branches().get(database.id, &database.default_branch)?;
            tx.discard();
            let Some(default) = default else { return Ok(None) };
            Ok(engine.merge_base(database.id, &default.head, &request.commit)?)
        }
    }
}

/// Moves the ref, and settles the operation.
fn save(
    run: &LeasedRun<'_>,
    request: &PushRequest,
    created_from: Option<&CommitHash>,
    made_at: Timestamp,
) -> Result<(), RunError> {
    let inner = run.inner;
    let now = inner.now();
    let mut tx = inner.ports.metadata.write(&run.keys())?;
    let (database, _) = run.begin(tx.as_mut(), Role::Write)?;
    refuse_changed(tx.as_mut(), &database, request)?;
    match &request.target {
        PushTarget::Branch { name, is_forced } => {
            move_branch(run, tx.as_mut(), &database, request, (name, *is_forced), created_from, (made_at, now))?;
        }
        PushTarget::Tag { name, message, tagger, tagged_at } => {
            let by = run.operation.created_by;
            if request.was.is_some() {
                tx.tags().remove(database.id, name, ref_change(inner, by, FormerCommit::LeftBehind))?;
                commit_left_behind(inner, tx.as_mut(), database.id, now)?;
            }
            let tag = Tag {
                name: name.clone(),
                commit: request.commit.clone(),
                message: message.clone(),
                tagger: tagger.clone(),
                tagged_at: *tagged_at,
            };
            match tx.tags().add(database.id, &tag, ref_change(inner, by, FormerCommit::Reached)) {
                Err(MetadataError::Taken) => return Err(RunError::Moved),
                other => other?,
            }
        }
    }
    record_file(inner, tx.as_mut(), database.id, SizeChange::Added, now)?;
    let (commit, previous) = (Some(request.commit.clone()), request.was.clone());
    run.succeed(tx, Outcome { commit, previous, ..Outcome::default() }, now)
}

fn move_branch(
    run: &LeasedRun<'_>,
    tx: &mut dyn Transaction,
    database: &Database,
    request: &PushRequest,
    (name, is_forced): (&RefName, bool),
    created_from: Option<&CommitHash>,
    (made_at, now): (Timestamp, Timestamp),
) -> Result<(), RunError> {
    let (inner, commit) = (run.inner, &request.commit);
    if request.replaces_first && *name != database.default_branch {
        return replace_first(run, tx, database, request, name, (made_at, now));
    }
    if is_forced && !request.replaces_first && request.was.is_some() {
        commit_left_behind(inner, tx, database.id, now)?;
    }
    let former = match is_forced || request.replaces_first {
        true => FormerCommit::LeftBehind,
        false => FormerCommit::Reached,
    };
    let was = request.was.as_ref().map(|was| (was, former));
    // A branch without a common history has nothing to show as pushed.
    run.move_branch(tx, name, was, created_from.unwrap_or(commit), (commit, made_at), now)
}

/// Makes the first branch that is pushed to a new database the default one, in place of the one that the database was created with.
fn replace_first(
    run: &LeasedRun<'_>,
    tx: &mut dyn Transaction,
    database: &Database,
    request: &PushRequest,
    name: &RefName,
    (made_at, now): (Timestamp, Timestamp),
) -> Result<(), RunError> {
    let (inner, id) = (run.inner, database.id);
    let by = (run.operation.created_by, &run.operation.created_by_name);
    let first = &database.default_branch;
    let Some(was) = &request.was else { return Err(RunError::Moved) };
    if !tx.branches().remove(id, first, was, ref_change(inner, by.0, FormerCommit::LeftBehind))? {
        return Err(RunError::Moved);
    }
    let new = Branch { name: name.clone(), head: request.commit.clone(), updated_at: made_at };
    tx.branches().add(id, &new, ref_change(inner, by.0, FormerCommit::Reached))?;
    if !tx.databases().update(&Database { default_branch: name.clone(), ..database.clone() })? {
        return Err(RunError::Moved);
    }
    run.note_moved(tx, name, &request.commit, now)?;
    emit(inner, tx, id, by, now, EventKind::BranchCreated { branch: name.clone() })?;
    Ok(emit(inner, tx, id, by, now, EventKind::BranchDeleted { branch: first.clone() })?)
}
