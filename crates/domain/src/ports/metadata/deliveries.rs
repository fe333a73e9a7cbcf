//! Deliveries of webhooks, their attempts and leases.

use super::Result;
use crate::entities::{Attempt, Delivery, Hook, Request};
use crate::values::{AccountId, DeliveryId, HookId, Timestamp};

/// Status of a delivery without what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    /// See [`crate::entities::DeliveryStatus::Pending`].
    Pending,
    /// See [`crate::entities::DeliveryStatus::Delivered`].
    Delivered,
    /// See [`crate::entities::DeliveryStatus::Failed`].
    Failed,
}

/// Deliveries that somebody alone may attempt now, one after the other. It is the hook that is leased: there is one attempt at a time for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The hook.
    pub hook: Hook,
    /// Its first due deliveries, by event, with their bodies; at least one.
    pub deliveries: Vec<(Delivery, String)>,
    /// When it ends by itself. It tells this lease from others of the same holder, too.
    pub until: Timestamp,
}

/// What waits to be told to hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryBacklog {
    /// Events whose deliveries are still to be made.
    pub events: u64,
    /// Deliveries that are due or being attempted.
    pub due: u64,
    /// Since when the oldest of them is due.
    pub oldest_due_at: Option<Timestamp>,
}

/// Whose operation is leased next: creators take turns in the order of their ids, and the first one follows the last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeaseTurn<'a> {
    /// The creator whose turn was last.
    pub after: Option<AccountId>,
    /// Creators that are passed over.
    pub without: &'a [AccountId],
}

/// What may be leased at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places<'a> {
    /// Hooks in all.
    pub hooks: usize,
    /// Of these, hooks whose last attempt failed, and slow ones.
    pub held_back: usize,
    /// Deliveries of a hook; one whose last attempt failed and a slow one have one.
    pub run: usize,
    /// Hooks that are slow.
    pub slow: &'a [HookId],
}

/// Deliveries of webhooks.
pub trait DeliveryRepository {
    /// Queues deliveries.
    fn add(&mut self, deliveries: &[Delivery]) -> Result<()>;
    /// Those of these deliveries that are there, in any order.
    fn get_all(&mut self, ids: &[DeliveryId]) -> Result<Vec<Delivery>>;
    /// A delivery of a hook.
    fn get(&mut self, hook: HookId, id: DeliveryId) -> Result<Option<Delivery>>;
    /// Deliveries of a hook, newest first, before `before`.
    fn list(
        &mut self,
        hook: HookId,
        state: Option<DeliveryState>,
        before: Option<DeliveryId>,
        limit: usize,
    ) -> Result<Vec<Delivery>>;
    /// What the last attempt of a delivery sent, unless there was none, and the body.
    fn request(&mut self, id: DeliveryId) -> Result<Option<(Option<Request>, String)>>;
    /// Changes status and counts of a delivery; gives whether it is there.
    fn update(&mut self, delivery: &Delivery) -> Result<bool>;
    /// Gives up all pending deliveries of a hook; gives how many.
    fn give_up(&mut self, hook: HookId, at: Timestamp) -> Result<u64>;
    /// Returns `true` if a delivery is due in a hook that has no lease and that these places admit.
    fn is_due(&mut self, now: Timestamp, places: Places<'_>) -> Result<bool>;
    /// Leases hooks that nobody holds and that have something due, those that wait longest first.
    fn lease(&mut self, holder: &str, now: Timestamp, until: Timestamp, places: Places<'_>) -> Result<Vec<Lease>>;
    /// Of leases, each of a hook and with its end, those that `holder` still has, with the hook as it is now; in any order.
    fn held(&mut self, holder: &str, leases: &[(HookId, Timestamp)]) -> Result<Vec<(Hook, Timestamp)>>;
    /// Ends the leases of hooks.
    fn release(&mut self, hooks: &[HookId]) -> Result<()>;
    /// Ends all leases of `holder`; gives how many.
    fn recover(&mut self, holder: &str) -> Result<u64>;
    /// What waits at `now`.
    fn backlog(&mut self, now: Timestamp) -> Result<DeliveryBacklog>;
    /// Removes deliveries finished before `before`, at most `limit`; gives how many.
    fn purge(&mut self, before: Timestamp, limit: usize) -> Result<u64>;
}

/// Attempts of deliveries.
pub trait AttemptRepository {
    /// The attempts of a delivery that are kept, oldest first.
    fn list(&mut self, delivery: DeliveryId) -> Result<Vec<Attempt>>;
    /// Adds an attempt, what it sent, and the status and counts that its delivery has by it, while the hook is held: when the hook is
    /// due is noted by [`DeliveryRepository::release`]. Of the attempts before it, the latest are kept, `keep` with this one.
    fn add(&mut self, delivery: &Delivery, attempt: &Attempt, request: &Request, keep: usize) -> Result<()>;
}
