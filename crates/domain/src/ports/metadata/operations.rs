//! Operations and their leases.

use super::{LeaseTurn, Result};
use crate::entities::{Operation, OperationKind, Work};
use crate::values::{AccountId, DatabaseId, DatabaseName, OperationId, Timestamp};

/// Filters for lists of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OperationFilter {
    /// Operations in this state.
    pub state: Option<OperationState>,
    /// Operations of these kinds.
    pub kinds: Option<&'static [OperationKind]>,
}

/// State of an operation without its data.
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

/// Counts of unsettled operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationBacklog {
    /// Operations in the queue.
    pub queued: u64,
    /// Operations that are running, including those whose lease ended and that will be leased again.
    pub running: u64,
}

/// The repository of operations.
pub trait OperationRepository {
    /// Adds an operation.
    fn add(&mut self, operation: &Operation) -> Result<()>;
    /// Returns an operation.
    fn get(&mut self, id: OperationId) -> Result<Option<Operation>>;
    /// Lists the operations of a database, newest first, before `before`.
    fn list(
        &mut self,
        database: DatabaseId,
        filter: OperationFilter,
        before: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<Operation>>;
    /// Lists the operations that a user created in any database, newest first, before `before`.
    fn list_by(
        &mut self,
        creator: AccountId,
        filter: OperationFilter,
        before: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<Operation>>;
    /// Returns when the `n`-th newest of an owner's operations created after `after` was created, or `None` if there are
    /// fewer. A fork counts for its new owner, any other operation for the owner of its database, even if that is deleted.
    fn nth_newest_of(&mut self, owner: AccountId, after: Timestamp, n: u64) -> Result<Option<Timestamp>>;
    /// Counts the queued operations of a database.
    fn count_queued(&mut self, database: DatabaseId) -> Result<u64>;
    /// Returns `true` if the database has an unsettled operation, or if a collection has a live lease on it.
    fn is_held_up(&mut self, database: DatabaseId, now: Timestamp) -> Result<bool>;
    /// Lists the unsettled operations of a database, oldest first.
    fn pending(&mut self, database: DatabaseId) -> Result<Vec<Operation>>;
    /// Leases the next operation to `holder` until `until`, marks it as running and counts an attempt.
    ///
    /// A database with a live lease, of an operation or of a collection, and a quarantined database are skipped. In any other
    /// database the candidate is the running operation whose
    /// lease ended, because its work may have begun, else the oldest queued operation. `turn` selects the creator
    /// among the candidates; the oldest candidate of that creator is leased.
    fn lease(
        &mut self,
        holder: &str,
        now: Timestamp,
        until: Timestamp,
        turn: LeaseTurn<'_>,
    ) -> Result<Option<Operation>>;
    /// Extends the lease of `holder`. Returns `true` if the holder still owned the lease.
    fn extend_lease(&mut self, id: OperationId, holder: &str, until: Timestamp) -> Result<bool>;
    /// Settles an operation with the status and times of `operation`, if it is running under a lease of `holder`, or,
    /// with `None`, if it is queued. Returns `false` if it is not in that state.
    fn settle(&mut self, operation: &Operation, holder: Option<&str>) -> Result<bool>;
    /// Replaces the input of a settled operation. Nothing else about it changes.
    fn replace_work(&mut self, id: OperationId, work: &Work) -> Result<()>;
    /// Counts the unsettled operations.
    fn backlog(&mut self) -> Result<OperationBacklog>;
    /// Ends the leases of all workers of a node (`<node>/…`) when the node starts. Returns how many.
    fn recover(&mut self, node: &str) -> Result<u64>;
    /// Returns the operations leased by `holder` to the queue, in their old position. With `counts`, the attempt
    /// counts; otherwise it is undone.
    fn release(&mut self, holder: &str, counts: bool) -> Result<()>;
    /// Returns `true` if an unsettled operation creates a fork of this name for this owner.
    fn is_forking_to(&mut self, owner: AccountId, name: &DatabaseName) -> Result<bool>;
    /// Removes operations settled before `before`. Returns how many.
    fn purge(&mut self, before: Timestamp) -> Result<u64>;
    /// Removes the settled operations of a kind of a database except for the `keep` newest ones. Returns how many.
    fn trim(&mut self, database: DatabaseId, kind: OperationKind, keep: usize) -> Result<u64>;
}
