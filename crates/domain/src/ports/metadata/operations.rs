//! Operations and their leases.

use super::{LeaseTurn, Result};
use crate::entities::{Operation, OperationKind};
use crate::values::{AccountId, DatabaseId, DatabaseName, OperationId, Timestamp};

/// Filters of the list of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OperationFilter {
    /// Only in this state.
    pub state: Option<OperationState>,
    /// Only of these kinds.
    pub kinds: Option<&'static [OperationKind]>,
}

/// State of an operation without what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationState {
    /// See [`crate::entities::OperationStatus::Queued`].
    Queued,
    /// See [`crate::entities::OperationStatus::Running`].
    Running,
    /// See [`crate::entities::OperationStatus::Succeeded`].
    Succeeded,
    /// See [`crate::entities::OperationStatus::Failed`].
    Failed,
}

/// Operations that are not settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationBacklog {
    /// Waiting.
    pub queued: u64,
    /// Being run, or to be run again.
    pub running: u64,
}

/// Operations.
pub trait OperationRepository {
    /// Adds an operation.
    fn add(&mut self, operation: &Operation) -> Result<()>;
    /// An operation.
    fn get(&mut self, id: OperationId) -> Result<Option<Operation>>;
    /// Operations of a database, newest first, before `before`.
    fn list(
        &mut self,
        database: DatabaseId,
        filter: OperationFilter,
        before: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<Operation>>;
    /// Operations that a user asked for in any database, newest first, before `before`.
    fn list_by(
        &mut self,
        creator: AccountId,
        filter: OperationFilter,
        before: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<Operation>>;
    /// How many wait in a database.
    fn count_queued(&mut self, database: DatabaseId) -> Result<u64>;
    /// The unsettled operations of a database, oldest first.
    fn pending(&mut self, database: DatabaseId) -> Result<Vec<Operation>>;
    /// Leases an operation that may run: queued, or running with a lease that ended, in a database none of whose operations is running under a
    /// live lease. Of the creators of such, `turn` says whose; of these, the oldest. It becomes running, one attempt more, leased to `holder`
    /// until `until`.
    fn lease(
        &mut self,
        holder: &str,
        now: Timestamp,
        until: Timestamp,
        turn: LeaseTurn<'_>,
    ) -> Result<Option<Operation>>;
    /// Prolongs the lease of `holder`; gives whether it still had it.
    fn extend_lease(&mut self, id: OperationId, holder: &str, until: Timestamp) -> Result<bool>;
    /// Ends a running operation of `holder` (or, with `None`, a queued one) with the status and times given. Gives whether it
    /// was in that state.
    fn settle(&mut self, operation: &Operation, holder: Option<&str>) -> Result<bool>;
    /// Operations that wait, and operations that run.
    fn backlog(&mut self) -> Result<OperationBacklog>;
    /// Ends the leases of all workers of a node (`<node>/…`), for its start; gives how many.
    fn recover(&mut self, node: &str) -> Result<u64>;
    /// Hands what `holder` has leased back to the queue, where its place is kept. The attempt counts, or it is as if it had not been made.
    fn release(&mut self, holder: &str, counts: bool) -> Result<()>;
    /// Whether a fork of this name is being made for this owner.
    fn is_forking_to(&mut self, owner: AccountId, name: &DatabaseName) -> Result<bool>;
    /// Removes operations settled before `before`; gives how many.
    fn purge(&mut self, before: Timestamp) -> Result<u64>;
}
