//! Previews of SQL writes: the statements run and are undone while their caller waits.

use std::time::Duration;

use parking_lot::Mutex;

use super::operations::base_of_write;
use super::{Inner, SqlWrite};
use crate::access::visibility::live;
use crate::access::{DatabaseAccess, Write};
use crate::errors::{OperationError, PortError};
use crate::ports::{EngineError, PreviewJob, PreviewPlace, PreviewRefusal, Previewed, SqlFailure, WritePreview};
use crate::values::{AccountId, CommitHash, DatabaseId};

/// Time limit of a preview, which keeps other writers of its database waiting.
pub(super) const TIME: Duration = Duration::from_secs(5);
/// Changed rows of a table that a preview shows.
const ROWS: usize = 100;
/// Soft limit on the bytes of values that a preview shows.
const BYTES: usize = 1 << 20;
/// Maximum number of previews at the same time. They occupy threads of other changes.
const AT_ONCE: usize = 4;
/// Maximum number of previews of one user at the same time.
const PER_USER: usize = 2;

/// The outcome of a preview.
#[derive(Debug, Clone, PartialEq)]
pub enum PreviewEnd {
    /// What the statements would change.
    Changes(WritePreview),
    /// The statements cannot be previewed, but may be able to run.
    Refused(PreviewRefusal),
    /// A statement fails.
    Failed {
        /// The reason.
        failure: SqlFailure,
        /// The number of the statement, from 1.
        statement: u32,
    },
}

/// A preview of a write.
#[derive(Debug, Clone, PartialEq)]
pub struct PreviewReport {
    /// The commit that the statements ran on.
    pub base: CommitHash,
    /// The outcome.
    pub end: PreviewEnd,
}

/// The users whose previews run, once for each preview.
#[derive(Debug, Default)]
pub(crate) struct RunningPreviews(Mutex<Vec<AccountId>>);

/// The right to run a preview, until dropped.
pub(super) struct PreviewSlot<'a> {
    running: &'a RunningPreviews,
    user: AccountId,
}

impl RunningPreviews {
    /// Reserves a place for a preview of a user.
    ///
    /// # Errors
    /// [`EngineError::Busy`] if all places, or those of the user, are taken.
    pub(super) fn begin(&self, user: AccountId) -> Result<PreviewSlot<'_>, EngineError> {
        let mut running = self.0.lock();
        if running.len() >= AT_ONCE || running.iter().filter(|other| **other == user).count() >= PER_USER {
            return Err(EngineError::Busy);
        }
        running.push(user);
        Ok(PreviewSlot { running: self, user })
    }
}

impl Drop for PreviewSlot<'_> {
    fn drop(&mut self) {
        let mut running = self.running.0.lock();
        if let Some(at) = running.iter().position(|user| *user == self.user) {
            running.swap_remove(at);
        }
    }
}

/// Runs the statements of a write on the commit that they would run on now, and undoes them. A merge is not part of it.
pub(super) fn preview(
    inner: &Inner,
    access: &DatabaseAccess<Write>,
    wanted: &SqlWrite,
) -> Result<PreviewReport, OperationError> {
    let _slot = inner.previews.begin(access.who().id).map_err(PortError::from)?;
    let mut tx = inner.ports.metadata.read()?;
    let database = live(tx.as_mut(), access.database().id)?;
    let (_, base) = base_of_write(tx.as_mut(), &database, wanted)?;
    drop(tx);
    let end = try_statements(inner, database.id, (&base, &wanted.statements), TIME)?;
    Ok(PreviewReport { base, end })
}

/// Runs statements on a commit for at most `timeout`, and undoes them.
pub(super) fn try_statements(
    inner: &Inner,
    database: DatabaseId,
    (base, statements): (&CommitHash, &str),
    timeout: Duration,
) -> Result<PreviewEnd, PortError> {
    let job = PreviewJob {
        base,
        statements,
        timeout: timeout.min(Duration::from_millis(inner.limits.write_timeout_ms)),
        rows: ROWS,
        bytes: BYTES,
        place: PreviewPlace::File,
    };
    match inner.ports.engine.preview_write(database, &job) {
        Ok(Previewed::Changes(preview)) => Ok(PreviewEnd::Changes(preview)),
        Ok(Previewed::Refused(refusal)) => Ok(PreviewEnd::Refused(refusal)),
        Err(EngineError::Sql { failure, statement }) => Ok(PreviewEnd::Failed { failure, statement }),
        Err(other) => Err(other.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previews_of_a_user_leave_places_to_others() {
        let user = |n: u128| AccountId::from_uuid(uuid::Uuid::from_u128(n));
        let running = RunningPreviews::default();
        let first = [running.begin(user(1)).unwrap(), running.begin(user(1)).unwrap()];
        assert!(matches!(running.begin(user(1)), Err(EngineError::Busy)));
        let others = [running.begin(user(2)).unwrap(), running.begin(user(3)).unwrap()];
        assert!(matches!(running.begin(user(4)), Err(EngineError::Busy)));
        drop(others);
        assert!(running.begin(user(1)).is_err(), "the first user still has two");
        drop(first);
        assert!(running.begin(user(1)).is_ok());
    }
}
