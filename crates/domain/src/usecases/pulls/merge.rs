//! Queuing the merge of a pull request.

use std::collections::BTreeMap;

use super::Pulls;
use super::content::heads;
use crate::access::visibility::live;
use crate::access::{DatabaseAccess, Write};
use crate::entities::{Operation, Pull, PullEnds, PullState, RowResolution, Side, Work};
use crate::errors::{OperationError, PortError, PullError};
use crate::ports::{Transaction, WriteKeys};
use crate::usecases::operations::{enqueue, save_queued};
use crate::usecases::{IdempotencyRecord, idempotency};
use crate::values::{LongText, PullNumber};

/// The settings of a merge.
#[derive(Debug, Clone)]
pub struct MergePull {
    /// Message of the merge commit. A default is used if it is absent or blank.
    pub message: Option<LongText>,
    /// The side that wins in each table with conflicts.
    pub resolve: BTreeMap<String, Side>,
    /// Decisions about single rows in conflict, which come before those about tables.
    pub rows: Vec<RowResolution>,
    /// Whether the target may move to the source without a merge commit, if it has no commits of its own.
    pub fast_forward: bool,
}

impl MergePull {
    /// Maximum number of rows in conflict that are resolved one by one.
    pub const MOST_ROWS: usize = 1_000;
}

impl Default for MergePull {
    fn default() -> Self {
        Self { message: None, resolve: BTreeMap::new(), rows: Vec::new(), fast_forward: true }
    }
}

impl Pulls<'_> {
    /// Queues the merge of a pull request as an operation.
    ///
    /// # Errors
    /// [`PullError::Merging`] if a merge is queued or running; [`PullError::State`] if the pull request is not open;
    /// [`PullError::BranchGone`], [`PullError::BranchMissing`], [`PullError::QueueFull`].
    pub fn merge(
        &self,
        access: &DatabaseAccess<Write>,
        number: PullNumber,
        how: MergePull,
        once: Option<&IdempotencyRecord<'_, Operation>>,
    ) -> Result<Operation, PullError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(access.database().id))?;
        let base = live(tx.as_mut(), access.database().id)?;
        let pull = tx.pulls().get(base.id, number)?.ok_or(PullError::NoSuchPull)?;
        if let Some(operation) = merging(tx.as_mut(), &pull)? {
            return Err(PullError::Merging(operation.id));
        }
        pull.clone().close(now)?;
        if matches!(pull.state, PullState::Closed { .. }) {
            return Err(crate::errors::PullStateError::Closed.into());
        }
        heads(tx.as_mut(), &pull)?;
        let message = how.message.map(LongText::into_string).filter(|m| !m.trim().is_empty());
        let work = Work::Merge {
            pull: number,
            ends: PullEnds {
                from: pull.from_locator.clone(),
                from_branch: pull.from_branch.clone(),
                to_branch: pull.to_branch.clone(),
            },
            message: message.unwrap_or_else(|| format!("Merge pull request #{number}: {}", pull.title)),
            resolve: how.resolve,
            rows: how.rows,
            fast_forward: how.fast_forward,
        };
        let operation = enqueue(self.0, tx.as_mut(), &base, access.who(), work, now).map_err(|error| match error {
            OperationError::QueueFull(limit) => PullError::QueueFull(limit),
            OperationError::Quota(error) => PullError::Quota(error),
            OperationError::Port(fault) => PullError::Port(fault),
            _ => PullError::Port(PortError::Unsettled("a merge could not be queued")),
        })?;
        idempotency::keep(self.0, tx.as_mut(), once, &operation, now)?;
        save_queued(self.0, tx)?;
        Ok(operation)
    }
}

/// Returns the unsettled operation that merges this pull request.
pub(super) fn merging(tx: &mut dyn Transaction, pull: &Pull) -> Result<Option<Operation>, PortError> {
    let pending = tx.operations().pending(pull.database_id)?;
    Ok(pending.into_iter().find(|o| matches!(&o.work, Work::Merge { pull: number, .. } if *number == pull.number)))
}
