//! Webhooks: registration, changes and secrets.

mod dispatch;
mod log;
mod schedule;

use std::collections::BTreeSet;
use std::sync::mpsc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{IdempotencyRecord, Inner, idempotency};
use crate::access::visibility::live;
use crate::access::{Admin, DatabaseAccess};
use crate::call_context;
use crate::entities::{
    Delivery, DeliveryDetails, DeliveryStatus, Event, EventKind, EventName, Hook, HookEvent, HookSecret,
    PreviousSecret, Sealed,
};
use crate::errors::{HookError, PortError};
use crate::ports::{AddressError, Durability, Transaction, WriteKey, WriteKeys};
use crate::values::{DatabaseId, DeliveryId, EventId, HookId, Timestamp};

pub use dispatch::{Attempted, Dispatch, Room, Run, Turn};
pub use log::Deliveries;

/// Seconds during which deliveries are signed with the previous secret too.
const ROTATION_SECONDS: i64 = 86_400;

/// An address that [`Hooks::check_address`] accepted for a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookAddress(String);

/// The properties of a new hook.
#[derive(Debug, Clone)]
pub struct NewHook {
    /// Address that events are sent to.
    pub url: HookAddress,
    /// Subscribed events; not empty.
    pub events: BTreeSet<HookEvent>,
    /// Whether the hook is active from the start.
    pub active: bool,
}

/// Changes to a hook. Absent fields stay unchanged.
#[derive(Debug, Clone, Default)]
pub struct EditHook {
    /// Address that events are sent to.
    pub url: Option<HookAddress>,
    /// Subscribed events; not empty.
    pub events: Option<BTreeSet<HookEvent>>,
    /// Whether the hook is active.
    pub active: Option<bool>,
}

/// A hook and its newest delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookView {
    /// The hook.
    pub hook: Hook,
    /// The newest delivery, if there is one.
    pub last_delivery: Option<Delivery>,
}

/// A hook with a new secret, which is readable only now.
#[derive(Debug)]
pub struct SecretHook {
    /// The hook.
    pub view: HookView,
    /// The secret that signs deliveries.
    pub secret: HookSecret,
}

/// Use cases of hooks.
pub struct Hooks<'a>(&'a Inner);

impl<'a> Hooks<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Checks an address for a hook and calls `done` with the result. A DNS lookup, if the address needs one, runs later on
    /// another thread, so that an unresponsive name server blocks no thread and no permit of this server.
    pub fn check_address(
        &self,
        access: &DatabaseAccess<Admin>,
        url: &str,
        done: impl FnOnce(Result<HookAddress, HookError>) + Send + 'static,
    ) {
        let sender = &self.0.ports.sender;
        match sender.check(url) {
            Err(error) => done(Err(error.into())),
            Ok(url) => {
                let address = HookAddress(url.clone());
                let looked_up = move |found: Result<(), _>| done(found.map(|()| address).map_err(HookError::from));
                sender.look_up(access.who().id, &url, Box::new(looked_up));
            }
        }
    }

    /// Checks an address as [`Hooks::check_address`] does, and waits for the result.
    ///
    /// # Errors
    /// [`HookError::Address`] if the address is not acceptable.
    pub fn address(&self, access: &DatabaseAccess<Admin>, url: &str) -> Result<HookAddress, HookError> {
        let (give, take) = mpsc::channel();
        self.check_address(access, url, move |checked| drop(give.send(checked)));
        take.recv().unwrap_or(Err(HookError::Address(AddressError::Busy)))
    }

    /// Registers a hook.
    ///
    /// # Errors
    /// [`HookError::TooMany`] if the database has as many hooks as allowed.
    pub fn create(
        &self,
        access: &DatabaseAccess<Admin>,
        wanted: NewHook,
        once: Option<&IdempotencyRecord<'_, SecretHook>>,
    ) -> Result<SecretHook, HookError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&keys(access))?;
        let database = live(tx.as_mut(), access.database().id)?;
        let limit = self.0.limits.hooks_per_database;
        if tx.hooks().count(database.id)? >= limit {
            return Err(HookError::TooMany(limit));
        }
        let id = HookId::from_uuid(self.0.ports.ids.uuid(now));
        let (secret, sealed) = self.mint(id)?;
        let hook = Hook {
            id,
            database_id: database.id,
            url: wanted.url.0,
            events: wanted.events,
            active: wanted.active,
            disabled_reason: None,
            secret: sealed,
            previous_secret: None,
            failing_since: None,
            exhausted: false,
            created_at: now,
            updated_at: now,
        };
        dispatch::settle_waiting(self.0, tx.as_mut())?;
        tx.hooks().add(&hook)?;
        let registered = SecretHook { view: HookView { hook, last_delivery: None }, secret };
        idempotency::keep(self.0, tx.as_mut(), once, &registered, now)?;
        tx.commit(Durability::Synced)?;
        Ok(registered)
    }

    fn mint(&self, hook: HookId) -> Result<(HookSecret, Sealed), PortError> {
        let (mut key, mut nonce) = ([0; 32], [0; 24]);
        self.0.ports.ids.fill(&mut key);
        self.0.ports.ids.fill(&mut nonce);
        let secret = HookSecret::from_text(format!("whsec_{}", STANDARD.encode(key)));
        let sealed = self.0.ports.vault.seal(hook, &secret, nonce)?;
        Ok((secret, sealed))
    }

    /// Returns up to `limit` hooks in order of creation, starting after `after`.
    ///
    /// # Errors
    /// [`HookError::Port`].
    pub fn list(
        &self,
        access: &DatabaseAccess<Admin>,
        after: Option<HookId>,
        limit: usize,
    ) -> Result<Vec<HookView>, HookError> {
        let found = self.0.ports.metadata.read()?.hooks().list(access.database().id, after, limit)?;
        Ok(found.into_iter().map(|(hook, last_delivery)| HookView { hook, last_delivery }).collect())
    }

    /// Returns a hook.
    ///
    /// # Errors
    /// [`HookError::NoSuchHook`] if the database has no such hook.
    pub fn get(&self, access: &DatabaseAccess<Admin>, id: HookId) -> Result<HookView, HookError> {
        view(self.0.ports.metadata.read()?.as_mut(), access.database().id, id)
    }

    /// Changes a hook. An edit that changes nothing leaves `updated_at` as it is. Deactivating a hook fails its pending
    /// deliveries.
    ///
    /// # Errors
    /// [`HookError::NoSuchHook`]; [`HookError::Changed`] if `expected` rejects the current state.
    pub fn edit(
        &self,
        access: &DatabaseAccess<Admin>,
        id: HookId,
        edit: EditHook,
        expected: Option<&dyn Fn(&HookView) -> bool>,
    ) -> Result<HookView, HookError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&keys(access))?;
        let database = live(tx.as_mut(), access.database().id)?.id;
        let seen = seen(tx.as_mut(), database, id, expected)?;
        let mut hook = seen.hook.clone();
        if let Some(HookAddress(url)) = edit.url {
            hook.url = url;
        }
        if let Some(events) = edit.events {
            hook.events = events;
        }
        if let Some(active) = edit.active {
            hook.set_active(active);
        }
        if hook == seen.hook {
            return Ok(seen);
        }
        hook.updated_at = now;
        dispatch::settle_waiting(self.0, tx.as_mut())?;
        tx.hooks().update(&hook)?;
        if !hook.active {
            tx.deliveries().give_up(id, now)?;
        }
        let edited = view(tx.as_mut(), database, id)?;
        tx.commit(Durability::Synced)?;
        Ok(edited)
    }

    /// Deletes a hook and its deliveries, and returns its last state.
    ///
    /// # Errors
    /// [`HookError::NoSuchHook`]; [`HookError::Changed`] if `expected` rejects the current state.
    pub fn delete(
        &self,
        access: &DatabaseAccess<Admin>,
        id: HookId,
        expected: Option<&dyn Fn(&HookView) -> bool>,
    ) -> Result<HookView, HookError> {
        let mut tx = self.0.ports.metadata.write(&keys(access))?;
        let database = live(tx.as_mut(), access.database().id)?.id;
        let seen = seen(tx.as_mut(), database, id, expected)?;
        tx.hooks().remove(id)?;
        tx.commit(Durability::Synced)?;
        Ok(seen)
    }

    /// Queues a test event for a hook, active or not.
    ///
    /// # Errors
    /// [`HookError::NoSuchHook`] if the database has no such hook.
    pub fn ping(
        &self,
        access: &DatabaseAccess<Admin>,
        id: HookId,
        once: Option<&IdempotencyRecord<'_, DeliveryDetails>>,
    ) -> Result<DeliveryDetails, HookError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&keys(access))?;
        let database = live(tx.as_mut(), access.database().id)?;
        let last = view(tx.as_mut(), database.id, id)?.last_delivery.map(|last| last.id);
        let kind = EventKind::Ping { hook: id };
        let body = self.0.ports.payloads.render(&database.locator, &kind);
        let event_id = EventId::from_uuid(self.0.ports.ids.uuid(now));
        let trace = call_context::trace();
        tx.events().add(&Event { id: event_id, database_id: database.id, at: now, kind, body, trace })?;
        let delivery = queued(id, event_id, EventName::Ping, delivery_id(self.0, now, last), now);
        tx.deliveries().add(std::slice::from_ref(&delivery))?;
        tx.events().mark_dispatched(event_id, now)?;
        let details = log::details(tx.as_mut(), database.id, delivery)?;
        idempotency::keep(self.0, tx.as_mut(), once, &details, now)?;
        tx.commit(Durability::Synced)?;
        self.0.outbox.one();
        Ok(details)
    }

    /// Replaces the secret of a hook. For a day, deliveries are signed with the previous secret too, if it can be opened.
    ///
    /// # Errors
    /// [`HookError::NoSuchHook`] if the database has no such hook.
    pub fn rotate_secret(
        &self,
        access: &DatabaseAccess<Admin>,
        id: HookId,
        once: Option<&IdempotencyRecord<'_, SecretHook>>,
    ) -> Result<SecretHook, HookError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&keys(access))?;
        let database = live(tx.as_mut(), access.database().id)?.id;
        let mut view = view(tx.as_mut(), database, id)?;
        let (secret, sealed) = self.mint(id)?;
        let previous = std::mem::replace(&mut view.hook.secret, sealed);
        let opens = self.0.ports.vault.open(id, &previous).is_some();
        view.hook.previous_secret =
            opens.then(|| PreviousSecret { secret: previous, until: now.plus_seconds(ROTATION_SECONDS) });
        view.hook.updated_at = now;
        tx.hooks().update(&view.hook)?;
        let rotated = SecretHook { view, secret };
        idempotency::keep(self.0, tx.as_mut(), once, &rotated, now)?;
        tx.commit(Durability::Synced)?;
        Ok(rotated)
    }
}

/// Returns a hook and its newest delivery.
fn view(tx: &mut dyn Transaction, database: DatabaseId, id: HookId) -> Result<HookView, HookError> {
    let hook = tx.hooks().get(database, id)?.ok_or(HookError::NoSuchHook)?;
    let last_delivery = tx.deliveries().list(id, None, None, 1)?.pop();
    Ok(HookView { hook, last_delivery })
}

/// Reads a hook within the transaction that changes it, and checks it against `expected`.
fn seen(
    tx: &mut dyn Transaction,
    database: DatabaseId,
    id: HookId,
    expected: Option<&dyn Fn(&HookView) -> bool>,
) -> Result<HookView, HookError> {
    let view = view(tx, database, id)?;
    match expected {
        Some(matches) if !matches(&view) => Err(HookError::Changed),
        _ => Ok(view),
    }
}

/// Returns a delivery that is due at once.
fn queued(hook_id: HookId, event_id: EventId, event: EventName, id: DeliveryId, now: Timestamp) -> Delivery {
    Delivery {
        id,
        hook_id,
        event_id,
        event,
        status: DeliveryStatus::Pending { next_attempt_at: now },
        created_at: now,
        attempt_count: 0,
        run_attempts: 0,
    }
}

/// Returns an id that sorts after the hook's last delivery, even if the clock was set back meanwhile.
fn delivery_id(inner: &Inner, now: Timestamp, last: Option<DeliveryId>) -> DeliveryId {
    let id = DeliveryId::from_uuid(inner.ports.ids.uuid(now));
    match last {
        Some(last) if id <= last => {
            let (millis, _) = last.as_uuid().get_timestamp().map_or((0, 0), |at| {
                let (seconds, nanos) = at.to_unix();
                (seconds.saturating_mul(1_000) + u64::from(nanos / 1_000_000), nanos)
            });
            DeliveryId::from_uuid(inner.ports.ids.uuid(Timestamp::from_micros(0).plus_millis(millis + 1)))
        }
        _ => id,
    }
}

/// Returns the keys of a change of webhooks: deliveries depend on them, and events of the database.
fn keys(access: &DatabaseAccess<Admin>) -> WriteKeys {
    WriteKeys::server().and(WriteKey::Database(access.database().id))
}
