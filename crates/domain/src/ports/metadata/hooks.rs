//! Webhooks.

use super::Result;
use crate::entities::{Delivery, Hook, HookEvent};
use crate::values::{DatabaseId, DeliveryId, HookId};

/// Webhooks of databases.
pub trait HookRepository {
    /// Registers a hook.
    fn add(&mut self, hook: &Hook) -> Result<()>;
    /// A hook of a database.
    fn get(&mut self, database: DatabaseId, id: HookId) -> Result<Option<Hook>>;
    /// Hooks of a database by id, which is by creation, after `after`; each with its newest delivery.
    fn list(
        &mut self,
        database: DatabaseId,
        after: Option<HookId>,
        limit: usize,
    ) -> Result<Vec<(Hook, Option<Delivery>)>>;
    /// How many hooks a database has.
    fn count(&mut self, database: DatabaseId) -> Result<u64>;
    /// Changes everything but id, database and creation; gives whether the hook is there.
    fn update(&mut self, hook: &Hook) -> Result<bool>;
    /// Removes a hook with its deliveries; gives whether it was there.
    fn remove(&mut self, id: HookId) -> Result<bool>;
    /// Removes all hooks of a database, their deliveries, and its events.
    fn clear(&mut self, database: DatabaseId) -> Result<()>;
    /// The active hooks of a database that want an event, by id, each with its newest delivery.
    fn list_subscribed(&mut self, database: DatabaseId, event: HookEvent) -> Result<Vec<(HookId, Option<DeliveryId>)>>;
}
