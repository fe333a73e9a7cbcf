//! Marks of what open pages follow, read at once for all of them.

use std::collections::BTreeMap;

use super::{MetadataError, OperationFilter, Transaction};
use crate::values::{AccountId, DatabaseId, HookId, OperationId, PullNumber, SessionId};

/// Something that an open page follows, or that the right to follow it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WatchKey {
    /// A session that has not been ended, and what its user may do on the server. The time at which the session expires is no part of it.
    Session(SessionId),
    /// What the role of a user, or of an anonymous caller, on a database follows from.
    DatabaseRights(DatabaseId, Option<AccountId>),
    /// The status of an operation.
    Operation(OperationId),
    /// The newest and the unsettled operations of a database.
    Operations(DatabaseId),
    /// A pull request.
    Pull(DatabaseId, PullNumber),
    /// The newest deliveries of a webhook.
    Deliveries(HookId),
}

/// A text for each key that exists. While the text stays the same, what the key stands for has not changed.
pub type WatchMarks = BTreeMap<WatchKey, String>;

/// Number of operations or deliveries whose changes count.
const NEWEST: usize = 100;

/// Returns the marks of `keys`, by look-ups for each.
pub(super) fn look_up(tx: &mut dyn Transaction, keys: &[WatchKey]) -> Result<WatchMarks, MetadataError> {
    let mut marks = WatchMarks::new();
    for key in keys {
        if let Some(mark) = mark(tx, *key)? {
            marks.insert(*key, mark);
        }
    }
    Ok(marks)
}

fn mark(tx: &mut dyn Transaction, key: WatchKey) -> Result<Option<String>, MetadataError> {
    Ok(match key {
        WatchKey::Session(id) => {
            let Some(session) = tx.sessions().get(id)? else { return Ok(None) };
            tx.users().get(session.user_id)?.map(|user| format!("{:?} {}", user.suspended_at, user.is_admin))
        }
        WatchKey::DatabaseRights(id, user) => {
            let Some(database) = tx.databases().get(id)? else { return Ok(None) };
            let (mut member, mut collaborator) = (None, None);
            if let Some(user) = user {
                member = tx.members().roles(user, &[database.owner_id])?.remove(&database.owner_id);
                collaborator = tx.collaborators().get(id, user)?.map(|collaborator| collaborator.role);
            }
            let state = (database.deleted_at, database.quarantined_at, database.visibility, database.owner_id);
            Some(format!("{state:?} {member:?} {collaborator:?}"))
        }
        WatchKey::Operation(id) => {
            tx.operations().get(id)?.map(|found| format!("{} {:?}", found.attempts, found.finished_at))
        }
        WatchKey::Operations(database) => {
            let all = OperationFilter { state: None, kinds: None };
            let found = tx.operations().list(database, all, None, NEWEST)?;
            let states: Vec<_> = found.iter().map(|found| (found.id, found.attempts, found.finished_at)).collect();
            Some(format!("{states:?}"))
        }
        WatchKey::Pull(database, number) => tx.pulls().get(database, number)?.map(|pull| format!("{pull:?}")),
        WatchKey::Deliveries(hook) => {
            let found = tx.deliveries().list(hook, None, None, NEWEST)?;
            let states: Vec<_> =
                found.iter().map(|found| (found.id, found.attempt_count, found.finished_at())).collect();
            Some(format!("{states:?}"))
        }
    })
}
