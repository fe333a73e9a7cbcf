//! The log of changes of refs: what is recorded, for how long, and what a branch named at a time.
//!
//! Commits that a ref left behind stay in the file of the database while the log names them, and become garbage then. Nothing can be
//! read through the log.

use std::sync::atomic::Ordering;

use super::{Inner, Limits};
use crate::entities::{Database, RefChange, RefKind};
use crate::errors::{HistoryError, PortError};
use crate::ports::{MetadataError, Transaction};
use crate::values::{AccountId, CommitHash, DatabaseId, RefLogId, RefName, Timestamp};

/// Number of entries read at a time.
const PAGE: usize = 1_000;
/// The start of the log while changes are not recorded.
const NEVER: Timestamp = Timestamp::from_micros(i64::MAX);

/// Whether a ref still reaches its former commit after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FormerCommit {
    /// The ref was created, or moved to a descendant.
    Reached,
    /// The ref was deleted, or moved elsewhere.
    LeftBehind,
}

/// Returns what is recorded of a change of a ref that `by` is about to make. `None` if the change is not recorded. Call it in the
/// transaction of the change, so that changes of a ref have their times in the order in which they happen.
pub(super) fn ref_change(inner: &Inner, by: AccountId, former: FormerCommit) -> Option<RefChange> {
    let is_left_behind = former == FormerCommit::LeftBehind;
    let is_recorded = inner.limits.history_seconds > 0 || (is_left_behind && kept_seconds(inner) > 0);
    is_recorded.then(|| {
        let at = inner.now();
        RefChange { id: fresh_id(inner, at), at, by, is_left_behind }
    })
}

/// Returns an id that sorts by time. It is unique among the changes of a ref, which are made one after the other.
fn fresh_id(inner: &Inner, at: Timestamp) -> RefLogId {
    let millis = u64::try_from(at.as_micros().div_euclid(1_000)).unwrap_or(0);
    let fraction = u16::try_from(at.as_micros().rem_euclid(1_000) * 4_096 / 1_000).unwrap_or(0);
    let number = inner.ref_changes.fetch_add(1, Ordering::Relaxed);
    let mut tail = [0; 10];
    tail[..2].copy_from_slice(&fraction.to_be_bytes());
    tail[2..].copy_from_slice(&number.to_be_bytes());
    RefLogId::from_uuid(uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid())
}

/// Returns for how many seconds commits stay that a ref left behind.
pub(super) fn kept_seconds(inner: &Inner) -> i64 {
    kept_seconds_of(&inner.limits)
}

/// Returns for how many seconds these limits keep commits that a ref left behind.
pub(super) fn kept_seconds_of(limits: &Limits) -> i64 {
    limits.history_seconds.max(limits.remote_grace_seconds)
}

/// Returns the time after which a commit was left behind that is kept now.
pub(super) fn kept_since(inner: &Inner) -> Timestamp {
    inner.now().plus_seconds(-kept_seconds(inner))
}

/// Returns the time after which a deleted branch was deleted that can be restored now.
pub(super) fn restorable_since(inner: &Inner) -> Timestamp {
    inner.now().plus_seconds(-inner.limits.history_seconds)
}

/// Records whether this process records all changes, at its start. Changes that were not recorded are in no log later.
pub(super) fn note_start(inner: &Inner, tx: &mut dyn Transaction) -> Result<(), MetadataError> {
    let from = tx.ref_log().complete_from()?;
    match (inner.limits.history_seconds > 0, from) {
        (false, from) if from != Some(NEVER) => tx.ref_log().set_complete_from(NEVER),
        (true, Some(NEVER)) => tx.ref_log().set_complete_from(inner.now()),
        _ => Ok(()),
    }
}

/// Returns the time from which on the heads of branches of a database are known.
pub(super) fn history_start(
    inner: &Inner,
    tx: &mut dyn Transaction,
    database: &Database,
) -> Result<Option<Timestamp>, PortError> {
    if inner.limits.history_seconds == 0 {
        return Ok(None);
    }
    let of_all = tx.ref_log().complete_from()?;
    if of_all == Some(NEVER) {
        return Ok(None);
    }
    let of_database = tx.collections().get(database.id)?.history_from;
    let start = restorable_since(inner).max(database.created_at);
    Ok([of_all, of_database].into_iter().flatten().fold(start, Timestamp::max).into())
}

/// Returns the commit that a branch named at a time.
pub(super) fn head_at(
    inner: &Inner,
    tx: &mut dyn Transaction,
    database: &Database,
    branch: &RefName,
    at: Timestamp,
) -> Result<CommitHash, HistoryError> {
    if at > inner.now() {
        return Err(HistoryError::Future);
    }
    let start = history_start(inner, tx, database)?.ok_or(HistoryError::Off)?;
    if at < start {
        return Err(HistoryError::TooEarly(start));
    }
    let missing = || HistoryError::NoBranch(branch.to_string());
    match tx.ref_log().next_change(database.id, RefKind::Branch, branch, at)? {
        Some(change) if change.is_erased => Err(HistoryError::Gone(branch.to_string())),
        Some(change) => change.old.ok_or_else(missing),
        None => Ok(tx.branches().get(database.id, branch)?.ok_or_else(missing)?.head),
    }
}

/// Removes from the log of a database what leads to a commit, because nothing may be restored to it any more. What refs named before
/// is kept.
pub(super) fn forget_what_reaches(
    inner: &Inner,
    tx: &mut dyn Transaction,
    database: DatabaseId,
    commit: &CommitHash,
) -> Result<(), PortError> {
    let reaches = |old: &CommitHash| inner.ports.engine.descends(database, std::slice::from_ref(old), commit);
    let mut before = None;
    loop {
        let page = tx.ref_log().list_left_behind(database, Timestamp::from_micros(i64::MIN), before, PAGE)?;
        let Some(last) = page.last() else { return Ok(()) };
        before = Some(last.id);
        for mut entry in page {
            // The entries before lead from one commit to a descendant. The oldest ones may not reach the commit yet.
            while let Some(old) = entry.old.clone() {
                if !reaches(&old)? {
                    if !entry.is_left_behind {
                        entry.is_left_behind = true;
                        tx.ref_log().update(database, &entry)?;
                    }
                    break;
                }
                entry.erase();
                tx.ref_log().update(database, &entry)?;
                match tx.ref_log().previous_change(database, &entry)? {
                    Some(previous) if !previous.is_left_behind && previous.new.as_ref() == Some(&old) => {
                        entry = previous;
                    }
                    _ => break,
                }
            }
        }
    }
}
