//! Forks.

use super::super::databases::may_create_for;
use super::{Run, Stop, failed};
use crate::entities::{Database, DatabaseLocator, FailureKind, Outcome, Role};
use crate::ports::MetadataError;
use crate::values::{AccountId, DatabaseId, OwnerName};

pub(super) fn run(run: &Run<'_>, owner_id: AccountId, owner: &OwnerName, fork_id: DatabaseId) -> Result<(), Stop> {
    let inner = run.inner;
    let mut unit = inner.ports.metadata.read()?;
    let (source, user) = run.begin(unit.as_mut(), Role::Read)?;
    let denied =
        || failed(FailureKind::PermissionDenied, format!("you may not create databases for '{owner}' any more"));
    let new_owner = may_create_for(unit.as_mut(), &user, owner.as_str())?
        .filter(|found| found.id == owner_id)
        .ok_or_else(denied)?;
    drop(unit);

    // A file belongs to one attempt: a worker that lost its lease without knowing may still copy, or remove what it copied,
    // when another has settled and the fork is in use.
    let fork_id = match run.operation.attempts {
        0 | 1 => fork_id,
        _ => DatabaseId::from_uuid(inner.ports.ids.uuid(inner.now())),
    };
    // No other operation of the source runs meanwhile, so the copy holds every commit that a ref can name when it is settled.
    inner.ports.engine.copy(source.id, fork_id)?;
    let settled = settle(run, &source, new_owner, fork_id);
    if matches!(settled, Err(Stop::Failed(_) | Stop::Lost)) {
        inner.ports.engine.remove(fork_id)?;
    }
    settled
}

fn settle(
    run: &Run<'_>,
    source: &Database,
    owner: super::super::databases::NewOwner,
    fork_id: DatabaseId,
) -> Result<(), Stop> {
    let inner = run.inner;
    let now = inner.now();
    let size = i64::try_from(inner.ports.engine.size_bytes(fork_id)?).unwrap_or(i64::MAX);
    let mut unit = inner.ports.metadata.write()?;
    let (source, user) = {
        let (now_source, user) = run.begin(unit.as_mut(), Role::Read)?;
        debug_assert_eq!(now_source.id, source.id);
        (now_source, user)
    };
    let fork = Database {
        id: fork_id,
        owner_id: owner.id,
        locator: DatabaseLocator { owner: owner.name.clone(), name: source.locator.name.clone() },
        description: source.description.clone(),
        visibility: source.visibility,
        default_branch: source.default_branch.clone(),
        parent_id: Some(source.id),
        network_id: source.network_id,
        created_at: now,
        last_write_at: source.last_write_at,
        size_bytes: size,
        star_count: 0,
        version: 1,
        deleted_at: None,
    };
    match unit.database_add(&fork) {
        Err(MetadataError::Taken) => {
            return Err(failed(FailureKind::Unprocessable, format!("'{}' exists already", fork.locator)));
        }
        other => other?,
    }
    unit.refs_copy(source.id, fork_id)?;
    if owner.role < Role::Admin {
        unit.collaborator_put(fork_id, user.id, Role::Admin, now)?;
    }
    let outcome = Outcome { commit: None, pull: None, database: Some((fork_id, fork.locator)) };
    run.succeed(unit, outcome, now)
}
