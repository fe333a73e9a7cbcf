//! What was sent, and sending it again.

use super::super::databases::live;
use super::super::{Inner, Once, once};
use crate::access::{Admin, DatabaseAccess};
use crate::entities::{Delivery, DeliveryDetails, Request};
use crate::errors::{Fault, HookError};
use crate::ports::{DeliveryState, Unit};
use crate::values::{DatabaseId, DeliveryId, HookId};

/// The log of deliveries.
pub struct Deliveries<'a>(&'a Inner);

impl<'a> Deliveries<'a> {
    pub(in super::super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Deliveries of a hook, newest first, before `before`.
    ///
    /// # Errors
    /// [`HookError::NoSuchHook`].
    pub fn list(
        &self,
        access: &DatabaseAccess<Admin>,
        hook: HookId,
        state: Option<DeliveryState>,
        before: Option<DeliveryId>,
        limit: usize,
    ) -> Result<Vec<Delivery>, HookError> {
        let mut unit = self.0.ports.metadata.read()?;
        unit.hooks().get(access.database().id, hook)?.ok_or(HookError::NoSuchHook)?;
        Ok(unit.deliveries().list(hook, state, before, limit)?)
    }

    /// A delivery with all that is known of it.
    ///
    /// # Errors
    /// [`HookError::NoSuchHook`], [`HookError::NoSuchDelivery`].
    pub fn get(
        &self,
        access: &DatabaseAccess<Admin>,
        hook: HookId,
        id: DeliveryId,
    ) -> Result<DeliveryDetails, HookError> {
        let mut unit = self.0.ports.metadata.read()?;
        let delivery = find(unit.as_mut(), access.database().id, hook, id)?;
        details(unit.as_mut(), access.database().id, delivery)
    }

    /// Queues one more run of attempts under the same id, whether the hook is active or not.
    ///
    /// # Errors
    /// [`HookError::NoSuchHook`], [`HookError::NoSuchDelivery`], [`HookError::StillPending`].
    pub fn redeliver(
        &self,
        access: &DatabaseAccess<Admin>,
        hook: HookId,
        id: DeliveryId,
        once: Option<&Once<'_, DeliveryDetails>>,
    ) -> Result<DeliveryDetails, HookError> {
        let now = self.0.now();
        let mut unit = self.0.ports.metadata.write()?;
        let database = live(unit.as_mut(), access.database().id)?.id;
        let mut delivery = find(unit.as_mut(), database, hook, id)?;
        if delivery.is_pending() {
            return Err(HookError::StillPending);
        }
        delivery.queue_again(now);
        unit.deliveries().update(&delivery)?;
        let details = details(unit.as_mut(), database, delivery)?;
        once::keep(self.0, unit.as_mut(), once, &details, now)?;
        unit.save()?;
        self.0.outbox.one();
        Ok(details)
    }
}

fn find(unit: &mut dyn Unit, database: DatabaseId, hook: HookId, id: DeliveryId) -> Result<Delivery, HookError> {
    unit.hooks().get(database, hook)?.ok_or(HookError::NoSuchHook)?;
    unit.deliveries().get(hook, id)?.ok_or(HookError::NoSuchDelivery)
}

/// A delivery with what was sent and answered.
pub(super) fn details(
    unit: &mut dyn Unit,
    database: DatabaseId,
    delivery: Delivery,
) -> Result<DeliveryDetails, HookError> {
    let hook = unit.hooks().get(database, delivery.hook_id)?.ok_or(HookError::NoSuchHook)?;
    let (request, body) =
        unit.deliveries().request(delivery.id)?.ok_or(Fault::Unsettled("a delivery without its event"))?;
    let request = request.unwrap_or(Request { url: hook.url, headers: Vec::new() });
    let attempts = unit.attempts().list(delivery.id)?;
    Ok(DeliveryDetails { delivery, request, body, attempts })
}
