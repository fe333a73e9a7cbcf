//! Quotas of owners. All checks run in the writing transaction of the change, so concurrent changes cannot exceed a limit
//! together.

use super::Inner;
use crate::entities::{Database, RowResolution, User, Work};
use crate::errors::{OrganizationError, PortError, QuotaError};
use crate::ports::Transaction;
use crate::values::{AccountId, Timestamp};

/// The period of [`super::Limits::operations_per_day`], in seconds.
const DAY: i64 = 86_400;

/// Checks that an owner may store `added` more bytes.
pub(super) fn check_bytes<E: From<QuotaError> + From<PortError>>(
    inner: &Inner,
    tx: &mut dyn Transaction,
    owner: AccountId,
    added: u64,
) -> Result<(), E> {
    let limit = inner.limits.bytes_per_owner;
    if limit == 0 {
        return Ok(());
    }
    let used = tx.databases().bytes_of(owner).map_err(PortError::from)?;
    if used.saturating_add(added) > limit { Err(QuotaError::Bytes(limit).into()) } else { Ok(()) }
}

/// Checks that the owner concerned may queue this work on a database.
pub(super) fn check_work<E: From<QuotaError> + From<PortError>>(
    inner: &Inner,
    tx: &mut dyn Transaction,
    database: &Database,
    work: &Work,
    now: Timestamp,
) -> Result<(), E> {
    let owner = charged(database, work);
    check_operations::<E>(inner, tx, owner, now)?;
    let added = match work {
        Work::Fork { .. } => u64::try_from(database.size_bytes).unwrap_or(0),
        Work::SqlWrite { statements, message, .. } => (statements.len() + message.len()) as u64,
        Work::Edit(edit) => edit.bytes() as u64,
        Work::Merge { message, rows, .. } => {
            (message.len() + rows.iter().map(RowResolution::bytes).sum::<usize>()) as u64
        }
        // The upload counts already. What a push adds counts once it is in the file.
        Work::Import(_) | Work::Push(_) | Work::MirrorSync | Work::Restore { .. } => 0,
        // It frees storage, so an owner without any left must be able to run it.
        Work::Purge => return Ok(()),
    };
    check_bytes::<E>(inner, tx, owner, added)
}

/// Checks that the owner concerned has not exceeded the limit of bytes meanwhile, with operations that were queued before
/// this one.
pub(super) fn check_run<E: From<QuotaError> + From<PortError>>(
    inner: &Inner,
    tx: &mut dyn Transaction,
    database: &Database,
    work: &Work,
) -> Result<(), E> {
    match work {
        Work::Purge => Ok(()),
        _ => check_bytes::<E>(inner, tx, charged(database, work), 0),
    }
}

/// Checks that a user may own one more organization.
pub(super) fn check_organizations(
    inner: &Inner,
    tx: &mut dyn Transaction,
    user: &User,
) -> Result<(), OrganizationError> {
    let limit = inner.limits.organizations_per_user;
    if limit > 0 && tx.members().count_owned(user.id)? >= limit {
        return Err(OrganizationError::TooMany(limit));
    }
    Ok(())
}

/// Returns the owner whose quotas an operation uses. A fork counts for its new owner.
fn charged(database: &Database, work: &Work) -> AccountId {
    match work {
        Work::Fork { owner_id, .. } => *owner_id,
        _ => database.owner_id,
    }
}

fn check_operations<E: From<QuotaError> + From<PortError>>(
    inner: &Inner,
    tx: &mut dyn Transaction,
    owner: AccountId,
    now: Timestamp,
) -> Result<(), E> {
    let limit = inner.limits.operations_per_day;
    if limit == 0 {
        return Ok(());
    }
    // The next operation is accepted when this one is a day old.
    let oldest = tx.operations().nth_newest_of(owner, now.plus_seconds(-DAY), limit).map_err(PortError::from)?;
    let Some(oldest) = oldest else { return Ok(()) };
    let micros = oldest.plus_seconds(DAY).as_micros().saturating_sub(now.as_micros());
    let retry_after_seconds = u32::try_from(micros.saturating_add(999_999) / 1_000_000).unwrap_or(1).max(1);
    Err(QuotaError::Operations { limit, retry_after_seconds }.into())
}
