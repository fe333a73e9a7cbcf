//! Forks of databases.

use super::super::databases::has_room;
use super::{LeasedRun, RunError, failed};
use crate::access::ownership::{NewOwner, may_create_for};
use crate::entities::{Database, DatabaseLocator, FailureKind, Outcome, Role, User};
use crate::ports::{MetadataError, Transaction};
use crate::values::{AccountId, DatabaseId, OwnerName};

pub(super) fn run(
    run: &LeasedRun<'_>,
    owner_id: AccountId,
    owner: &OwnerName,
    fork_id: DatabaseId,
) -> Result<(), RunError> {
    let inner = run.inner;
    let mut tx = inner.ports.metadata.read()?;
    let (source, user) = run.begin(tx.as_mut(), Role::Read)?;
    new_owner(tx.as_mut(), &user, owner_id, owner)?;
    tx.discard();

    // Remove the copies of earlier attempts that could not settle, for example because the metadata store was unavailable.
    // Their leases have ended, so they never will.
    for earlier in 1..run.operation.attempts {
        inner.ports.engine.remove(copy_of(fork_id, earlier))?;
    }
    let fork_id = copy_of(fork_id, run.operation.attempts);
    // No other operation of the source runs meanwhile, so the copy holds every commit that a ref can name when the fork is
    // settled.
    inner.ports.engine.copy(source.id, fork_id)?;
    let settled = settle(run, owner_id, owner, fork_id);
    if matches!(settled, Err(RunError::Failed(_) | RunError::Lost)) {
        inner.ports.engine.remove(fork_id)?;
    }
    settled
}

/// Returns the id of the database that an attempt copies to. Each attempt has its own file: a worker that lost its lease
/// unnoticed may still copy or remove its file after another worker has settled and the fork is in use.
fn copy_of(fork: DatabaseId, attempt: u32) -> DatabaseId {
    let later = u128::from(attempt.saturating_sub(1));
    DatabaseId::from_uuid(uuid::Uuid::from_u128(fork.as_uuid().as_u128() ^ later))
}

/// Returns the account that the fork is for, if the operation's creator may still create databases there. The failure does
/// not name the account, because every reader of the source can read the failure.
fn new_owner(tx: &mut dyn Transaction, user: &User, id: AccountId, name: &OwnerName) -> Result<NewOwner, RunError> {
    let found = may_create_for(tx, user, name.as_str())?.filter(|found| found.id == id);
    found.ok_or_else(|| {
        failed(FailureKind::PermissionDenied, format!("{} may no longer create databases for the new owner", user.name))
    })
}

fn settle(run: &LeasedRun<'_>, owner_id: AccountId, owner: &OwnerName, fork_id: DatabaseId) -> Result<(), RunError> {
    let inner = run.inner;
    let now = inner.now();
    let size = i64::try_from(inner.ports.engine.size_bytes(fork_id)?).unwrap_or(i64::MAX);
    let mut tx = inner.ports.metadata.write()?;
    let (source, user) = run.begin(tx.as_mut(), Role::Read)?;
    let owner = new_owner(tx.as_mut(), &user, owner_id, owner)?;
    if let Err(limit) = has_room(inner, tx.as_mut(), owner.id)? {
        let text = format!("the new owner has reached the limit of {limit} databases");
        return Err(failed(FailureKind::Unprocessable, text));
    }
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
    match tx.databases().add(&fork) {
        Err(MetadataError::Taken) => {
            return Err(failed(FailureKind::Unprocessable, "a database of that name already exists"));
        }
        other => other?,
    }
    tx.refs().copy_all(source.id, fork_id)?;
    if owner.role < Role::Admin {
        tx.collaborators().put(fork_id, user.id, Role::Admin, now)?;
    }
    let outcome = Outcome { database: Some((fork_id, fork.locator)), ..Outcome::default() };
    run.succeed(tx, outcome, now)
}
