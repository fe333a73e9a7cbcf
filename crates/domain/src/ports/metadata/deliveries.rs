//! Deliveries of webhooks, their attempts and leases.

use super::Result;
use crate::entities::{Attempt, DatabaseLocator, Delivery, Hook, OperationKind, Request};
use crate::values::{AccountId, DeliveryId, HookId, Timestamp, TraceContext};

/// Status of a delivery without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    /// See [`crate::entities::DeliveryStatus::Pending`].
    Pending,
    /// See [`crate::entities::DeliveryStatus::Delivered`].
    Delivered,
    /// See [`crate::entities::DeliveryStatus::Failed`].
    Failed,
}

/// The lease of a hook: only its holder may attempt these deliveries, one after the other. The hook is leased rather
/// than a delivery, because each hook has at most one attempt at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The hook.
    pub hook: Hook,
    /// The database of the hook.
    pub database: DatabaseLocator,
    /// The first due deliveries, ordered by event. Never empty.
    pub deliveries: Vec<DueDelivery>,
    /// When the lease ends unless it is released. It also distinguishes this lease from other leases of the same
    /// holder.
    pub until: Timestamp,
}

/// A delivery that is due, with what its event says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueDelivery {
    /// The delivery.
    pub delivery: Delivery,
    /// The exact body to send.
    pub body: String,
    /// The trace of the event.
    pub trace: Option<TraceContext>,
}

/// Events and deliveries that wait to be sent to hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryBacklog {
    /// Events whose deliveries have not been created yet.
    pub events: u64,
    /// Deliveries that are due, including those being attempted.
    pub due: u64,
    /// Since when the oldest of these deliveries is due.
    pub oldest_due_at: Option<Timestamp>,
}

/// The rotation among creators of operations. Creators take turns by ascending id, and the first one follows the
/// last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeaseTurn<'a> {
    /// The creator of the operation that was leased last.
    pub after: Option<AccountId>,
    /// Creators whose operations are skipped. A database whose candidate belongs to such a creator is skipped too.
    pub without: &'a [AccountId],
    /// If present, candidates of other kinds are skipped.
    pub kind: Option<OperationKind>,
}

/// How much one call may lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places<'a> {
    /// Maximum number of hooks.
    pub hooks: usize,
    /// Maximum number of failing or slow hooks among them.
    pub held_back: usize,
    /// Maximum number of deliveries per hook. The maximum is 1 for failing and slow hooks.
    pub run: usize,
    /// Hooks that respond slowly.
    pub slow: &'a [HookId],
}

/// The repository of deliveries of webhooks. Deliveries of quarantined databases are neither due nor leased.
pub trait DeliveryRepository {
    /// Queues deliveries.
    fn add(&mut self, deliveries: &[Delivery]) -> Result<()>;
    /// Returns those of these deliveries that exist, in any order.
    fn get_all(&mut self, ids: &[DeliveryId]) -> Result<Vec<Delivery>>;
    /// Returns a delivery of a hook.
    fn get(&mut self, hook: HookId, id: DeliveryId) -> Result<Option<Delivery>>;
    /// Lists the deliveries of a hook, newest first, before `before`.
    fn list(
        &mut self,
        hook: HookId,
        state: Option<DeliveryState>,
        before: Option<DeliveryId>,
        limit: usize,
    ) -> Result<Vec<Delivery>>;
    /// Returns the body of a delivery and the request of its last attempt, if there was an attempt.
    fn request(&mut self, id: DeliveryId) -> Result<Option<(Option<Request>, String)>>;
    /// Updates status and counters of a delivery. Returns `false` if the delivery does not exist.
    fn update(&mut self, delivery: &Delivery) -> Result<bool>;
    /// Marks all pending deliveries of a hook as failed at `at`. Returns how many.
    fn give_up(&mut self, hook: HookId, at: Timestamp) -> Result<u64>;
    /// Returns `true` if [`DeliveryRepository::lease`] would lease a hook within these limits.
    fn is_due(&mut self, now: Timestamp, places: Places<'_>) -> Result<bool>;
    /// Leases hooks that have due deliveries and no live lease, longest-waiting first.
    fn lease(&mut self, holder: &str, now: Timestamp, until: Timestamp, places: Places<'_>) -> Result<Vec<Lease>>;
    /// Returns those of these leases that `holder` still has, with the current state of their hooks, in any order. A
    /// lease is identified by its hook and its end.
    fn held(&mut self, holder: &str, leases: &[(HookId, Timestamp)]) -> Result<Vec<(Hook, Timestamp)>>;
    /// Ends the leases of hooks.
    fn release(&mut self, hooks: &[HookId]) -> Result<()>;
    /// Ends all leases of `holder`. Returns how many.
    fn recover(&mut self, holder: &str) -> Result<u64>;
    /// Counts what waits at `now`.
    fn backlog(&mut self, now: Timestamp) -> Result<DeliveryBacklog>;
    /// Removes up to `limit` deliveries that finished before `before`. Returns how many.
    fn purge(&mut self, before: Timestamp, limit: usize) -> Result<u64>;
}

/// The repository of attempts of deliveries.
pub trait AttemptRepository {
    /// Lists the retained attempts of a delivery, oldest first.
    fn list(&mut self, delivery: DeliveryId) -> Result<Vec<Attempt>>;
    /// Adds an attempt with its request, and stores the resulting status and counters of the delivery. Keeps the
    /// newest `keep` attempts. The caller holds the lease of the hook; [`DeliveryRepository::release`] updates the
    /// time at which the hook is due next.
    fn add(&mut self, delivery: &Delivery, attempt: &Attempt, request: &Request, keep: usize) -> Result<()>;
}
