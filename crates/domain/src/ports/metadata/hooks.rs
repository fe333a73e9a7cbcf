//! Webhooks.

use super::Result;
use crate::entities::{Delivery, Hook, HookEvent};
use crate::values::{DatabaseId, DeliveryId, HookId};

/// The repository of webhooks of databases.
pub trait HookRepository {
    /// Adds a hook.
    fn add(&mut self, hook: &Hook) -> Result<()>;
    /// Returns a hook of a database.
    fn get(&mut self, database: DatabaseId, id: HookId) -> Result<Option<Hook>>;
    /// Lists the hooks of a database by ascending id, which is the order of creation, after `after`. Each comes with
    /// its newest delivery.
    fn list(
        &mut self,
        database: DatabaseId,
        after: Option<HookId>,
        limit: usize,
    ) -> Result<Vec<(Hook, Option<Delivery>)>>;
    /// Counts the hooks of a database.
    fn count(&mut self, database: DatabaseId) -> Result<u64>;
    /// Updates everything but id, database and creation time. Returns `false` if the hook does not exist.
    fn update(&mut self, hook: &Hook) -> Result<bool>;
    /// Removes a hook and its deliveries. Returns `true` if the hook existed.
    fn remove(&mut self, id: HookId) -> Result<bool>;
    /// Removes all hooks of a database with their deliveries, and the events of the database.
    fn clear(&mut self, database: DatabaseId) -> Result<()>;
    /// Lists the hooks of all databases that have a secret, present or previous, sealed under another key than `key_id`, by
    /// ascending id after `after`.
    fn list_sealed_otherwise(&mut self, key_id: &str, after: Option<HookId>, limit: usize) -> Result<Vec<Hook>>;
    /// Counts the hooks of all databases by the keys that their secrets, present and previous, are sealed under, in the order
    /// of the ids of these keys. A hook with secrets under two keys counts for both.
    fn count_by_key(&mut self) -> Result<Vec<(String, u64)>>;
    /// Lists the active hooks of a database that subscribe to an event, by id. Each comes with its newest delivery.
    fn list_subscribed(&mut self, database: DatabaseId, event: HookEvent) -> Result<Vec<(HookId, Option<DeliveryId>)>>;
}
