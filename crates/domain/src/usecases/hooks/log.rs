//! The delivery log of webhooks, and redelivery.

use super::super::{IdempotencyRecord, Inner, idempotency};
use super::keys;
use crate::access::visibility::live;
use crate::access::{Admin, DatabaseAccess};
use crate::entities::{Delivery, DeliveryDetails, Request};
use crate::errors::{HookError, PortError};
use crate::ports::{DeliveryState, Durability, Transaction};
use crate::values::{DatabaseId, DeliveryId, HookId};

/// Use cases of the delivery log.
pub struct Deliveries<'a>(&'a Inner);

impl<'a> Deliveries<'a> {
    pub(in super::super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns up to `limit` deliveries of a hook before `before`, newest first.
    ///
    /// # Errors
    /// [`HookError::NoSuchHook`] if the database has no such hook.
    pub fn list(
        &self,
        access: &DatabaseAccess<Admin>,
        hook: HookId,
        state: Option<DeliveryState>,
        before: Option<DeliveryId>,
        limit: usize,
    ) -> Result<Vec<Delivery>, HookError> {
        let mut tx = self.0.ports.metadata.read()?;
        tx.hooks().get(access.database().id, hook)?.ok_or(HookError::NoSuchHook)?;
        Ok(tx.deliveries().list(hook, state, before, limit)?)
    }

    /// Returns a delivery with its request and attempts.
    ///
    /// # Errors
    /// [`HookError::NoSuchHook`], [`HookError::NoSuchDelivery`].
    pub fn get(
        &self,
        access: &DatabaseAccess<Admin>,
        hook: HookId,
        id: DeliveryId,
    ) -> Result<DeliveryDetails, HookError> {
        let mut tx = self.0.ports.metadata.read()?;
        let delivery = find(tx.as_mut(), access.database().id, hook, id)?;
        details(tx.as_mut(), access.database().id, delivery)
    }

    /// Queues another run of attempts under the same delivery id, whether the hook is active or not.
    ///
    /// # Errors
    /// [`HookError::NoSuchHook`]; [`HookError::NoSuchDelivery`]; [`HookError::StillPending`] if the previous run has not
    /// ended.
    pub fn redeliver(
        &self,
        access: &DatabaseAccess<Admin>,
        hook: HookId,
        id: DeliveryId,
        once: Option<&IdempotencyRecord<'_, DeliveryDetails>>,
    ) -> Result<DeliveryDetails, HookError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&keys(access))?;
        let database = live(tx.as_mut(), access.database().id)?.id;
        let mut delivery = find(tx.as_mut(), database, hook, id)?;
        if delivery.is_pending() {
            return Err(HookError::StillPending);
        }
        delivery.queue_again(now);
        tx.deliveries().update(&delivery)?;
        let details = details(tx.as_mut(), database, delivery)?;
        idempotency::keep(self.0, tx.as_mut(), once, &details, now)?;
        tx.commit(Durability::Synced)?;
        self.0.outbox.one();
        Ok(details)
    }
}

fn find(tx: &mut dyn Transaction, database: DatabaseId, hook: HookId, id: DeliveryId) -> Result<Delivery, HookError> {
    tx.hooks().get(database, hook)?.ok_or(HookError::NoSuchHook)?;
    tx.deliveries().get(hook, id)?.ok_or(HookError::NoSuchDelivery)
}

/// Returns a delivery with its request, body and attempts.
pub(super) fn details(
    tx: &mut dyn Transaction,
    database: DatabaseId,
    delivery: Delivery,
) -> Result<DeliveryDetails, HookError> {
    let hook = tx.hooks().get(database, delivery.hook_id)?.ok_or(HookError::NoSuchHook)?;
    let (request, body) =
        tx.deliveries().request(delivery.id)?.ok_or(PortError::Unsettled("a delivery without its event"))?;
    let request = request.unwrap_or(Request { url: hook.url, headers: Vec::new() });
    let attempts = tx.attempts().list(delivery.id)?;
    Ok(DeliveryDetails { delivery, request, body, attempts })
}
