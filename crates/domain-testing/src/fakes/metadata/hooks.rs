//! Hooks, their deliveries and leases.

use std::collections::{BTreeMap, BTreeSet};

use super::state::{Held, Logged};
use super::{MemoryTransaction, Result, count, missing, page};
use branchyard_domain::entities::{Attempt, Delivery, DeliveryStatus, Hook, HookEvent, Request};
use branchyard_domain::ports::{
    AttemptRepository, DeliveryBacklog, DeliveryRepository, DeliveryState, DueDelivery, HookRepository, Lease,
    MetadataError, Places, Repositories, WriteKey,
};
use branchyard_domain::values::{DatabaseId, DeliveryId, HookId, Timestamp};

fn state_of(delivery: &Delivery) -> DeliveryState {
    match delivery.status {
        DeliveryStatus::Pending { .. } => DeliveryState::Pending,
        DeliveryStatus::Delivered { .. } => DeliveryState::Delivered,
        DeliveryStatus::Failed { .. } => DeliveryState::Failed,
    }
}

fn due_at(delivery: &Delivery) -> Option<Timestamp> {
    match delivery.status {
        DeliveryStatus::Pending { next_attempt_at } => Some(next_attempt_at),
        DeliveryStatus::Delivered { .. } | DeliveryStatus::Failed { .. } => None,
    }
}

/// Returns the ids of the keys that the secrets of a hook are sealed under.
fn keys_of(hook: &Hook) -> impl Iterator<Item = &str> {
    let previous = hook.previous_secret.as_ref().map(|previous| &previous.secret);
    std::iter::once(&hook.secret).chain(previous).map(|sealed| sealed.key_id.as_str())
}

/// Returns `true` if a hook counts against the limit for failing and slow hooks.
fn is_held_back(hook: &Hook, places: Places<'_>) -> bool {
    hook.failing_since.is_some() || places.slow.contains(&hook.id)
}

impl MemoryTransaction<'_> {
    fn deliveries_of(&self, hook: HookId) -> impl DoubleEndedIterator<Item = &Delivery> {
        self.state.deliveries.values().map(|logged| &logged.delivery).filter(move |d| d.hook_id == hook)
    }

    /// Returns hooks without a live lease that have due deliveries: the time when the first became due, and the due
    /// deliveries by event.
    fn due(&self, now: Timestamp) -> Vec<(Timestamp, &Hook, Vec<&Delivery>)> {
        let free = self.state.hooks.values().filter(|held| held.lease.as_ref().is_none_or(|(_, until)| *until <= now));
        let mut due: Vec<_> = free
            .filter(|held| !self.state.is_quarantined(held.hook.database_id))
            .filter_map(|held| {
                let due = || self.deliveries_of(held.hook.id).filter(|d| due_at(d).is_some_and(|at| at <= now));
                Some((due().filter_map(due_at).min()?, &held.hook, due().collect()))
            })
            .collect();
        due.sort_by_key(|(at, hook, _)| (*at, hook.id));
        due
    }
}

impl HookRepository for MemoryTransaction<'_> {
    fn add(&mut self, hook: &Hook) -> Result<()> {
        self.needs(WriteKey::Server);
        if self.state.hooks.contains_key(&hook.id) {
            return Err(MetadataError::Taken);
        }
        self.change()?.hooks.insert(hook.id, Held { hook: hook.clone(), lease: None });
        Ok(())
    }

    fn get(&mut self, database: DatabaseId, id: HookId) -> Result<Option<Hook>> {
        let found = self.state.hooks.get(&id).map(|held| &held.hook);
        Ok(found.filter(|hook| hook.database_id == database).cloned())
    }

    fn list(
        &mut self,
        database: DatabaseId,
        after: Option<HookId>,
        limit: usize,
    ) -> Result<Vec<(Hook, Option<Delivery>)>> {
        let hooks = self.state.hooks.values().map(|held| &held.hook).filter(|hook| hook.database_id == database);
        let later = hooks.filter(|hook| after.is_none_or(|after| hook.id > after));
        Ok(page(later.map(|hook| (hook.clone(), self.deliveries_of(hook.id).next_back().cloned())), limit))
    }

    fn count(&mut self, database: DatabaseId) -> Result<u64> {
        Ok(count(self.state.hooks.values().filter(|held| held.hook.database_id == database).count()))
    }

    fn update(&mut self, hook: &Hook) -> Result<bool> {
        self.needs(WriteKey::Server);
        let Some(held) = self.change()?.hooks.get_mut(&hook.id) else { return Ok(false) };
        let (id, database_id, created_at) = (held.hook.id, held.hook.database_id, held.hook.created_at);
        held.hook = Hook { id, database_id, created_at, ..hook.clone() };
        Ok(true)
    }

    fn remove(&mut self, id: HookId) -> Result<bool> {
        self.needs(WriteKey::Server);
        let state = self.change()?;
        state.deliveries.retain(|_, logged| logged.delivery.hook_id != id);
        Ok(state.hooks.remove(&id).is_some())
    }

    fn clear(&mut self, database: DatabaseId) -> Result<()> {
        self.needs(WriteKey::Server);
        let hooks = self.state.hooks.values().map(|held| &held.hook).filter(|hook| hook.database_id == database);
        for id in hooks.map(|hook| hook.id).collect::<Vec<_>>() {
            self.hooks().remove(id)?;
        }
        self.change()?.events.retain(|(event, _)| event.database_id != database);
        Ok(())
    }

    fn list_sealed_otherwise(&mut self, key_id: &str, after: Option<HookId>, limit: usize) -> Result<Vec<Hook>> {
        let hooks = self.state.hooks.values().map(|held| &held.hook);
        let later = hooks.filter(|hook| after.is_none_or(|after| hook.id > after));
        Ok(page(later.filter(|hook| keys_of(hook).any(|key| key != key_id)).cloned(), limit))
    }

    fn count_by_key(&mut self) -> Result<Vec<(String, u64)>> {
        let mut counts = BTreeMap::new();
        for held in self.state.hooks.values() {
            for key in keys_of(&held.hook).collect::<BTreeSet<_>>() {
                *counts.entry(key.to_owned()).or_insert(0) += 1;
            }
        }
        Ok(counts.into_iter().collect())
    }

    fn list_subscribed(&mut self, database: DatabaseId, event: HookEvent) -> Result<Vec<(HookId, Option<DeliveryId>)>> {
        let hooks = self.state.hooks.values().map(|held| &held.hook);
        let wanting = hooks.filter(|h| h.database_id == database && h.active && h.events.contains(&event));
        Ok(wanting.map(|hook| (hook.id, self.deliveries_of(hook.id).next_back().map(|last| last.id))).collect())
    }
}

impl DeliveryRepository for MemoryTransaction<'_> {
    fn add(&mut self, deliveries: &[Delivery]) -> Result<()> {
        self.needs(WriteKey::Server);
        for delivery in deliveries {
            let known = self.state.hooks.contains_key(&delivery.hook_id)
                && self.state.events.iter().any(|(event, _)| event.id == delivery.event_id);
            if !known {
                return Err(missing("queue deliveries"));
            }
            let logged = Logged { delivery: delivery.clone(), request: None, attempts: Vec::new() };
            self.change()?.deliveries.insert(delivery.id, logged);
        }
        Ok(())
    }

    fn get_all(&mut self, ids: &[DeliveryId]) -> Result<Vec<Delivery>> {
        Ok(ids.iter().filter_map(|id| self.state.deliveries.get(id)).map(|logged| logged.delivery.clone()).collect())
    }

    fn get(&mut self, hook: HookId, id: DeliveryId) -> Result<Option<Delivery>> {
        let found = self.state.deliveries.get(&id).map(|logged| &logged.delivery);
        Ok(found.filter(|delivery| delivery.hook_id == hook).cloned())
    }

    fn list(
        &mut self,
        hook: HookId,
        state: Option<DeliveryState>,
        before: Option<DeliveryId>,
        limit: usize,
    ) -> Result<Vec<Delivery>> {
        let wanted = self.deliveries_of(hook).rev().filter(|delivery| {
            before.is_none_or(|before| delivery.id < before) && state.is_none_or(|state| state_of(delivery) == state)
        });
        Ok(page(wanted.cloned(), limit))
    }

    fn request(&mut self, id: DeliveryId) -> Result<Option<(Option<Request>, String)>> {
        let Some(logged) = self.state.deliveries.get(&id) else { return Ok(None) };
        let event = self.state.events.iter().find(|(event, _)| event.id == logged.delivery.event_id);
        Ok(event.map(|(event, _)| (logged.request.clone(), event.body.clone())))
    }

    fn update(&mut self, delivery: &Delivery) -> Result<bool> {
        self.needs(WriteKey::Server);
        let Some(logged) = self.change()?.deliveries.get_mut(&delivery.id) else { return Ok(false) };
        logged.delivery.status = delivery.status;
        logged.delivery.attempt_count = delivery.attempt_count;
        logged.delivery.run_attempts = delivery.run_attempts;
        Ok(true)
    }

    fn give_up(&mut self, hook: HookId, at: Timestamp) -> Result<u64> {
        self.needs(WriteKey::Server);
        let all = self.change()?.deliveries.values_mut().map(|logged| &mut logged.delivery);
        let mut given_up = 0;
        for delivery in all.filter(|delivery| delivery.hook_id == hook && delivery.is_pending()) {
            delivery.status = DeliveryStatus::Failed { finished_at: at };
            given_up += 1;
        }
        Ok(given_up)
    }

    fn is_due(&mut self, now: Timestamp, places: Places<'_>) -> Result<bool> {
        let admits = |hook: &Hook| if is_held_back(hook, places) { places.held_back } else { places.hooks };
        Ok(self.due(now).iter().any(|(_, hook, _)| admits(hook) > 0))
    }

    fn lease(&mut self, holder: &str, now: Timestamp, until: Timestamp, places: Places<'_>) -> Result<Vec<Lease>> {
        self.needs(WriteKey::Server);
        let mut held_back = 0;
        let due = self.due(now).into_iter().filter(|(_, hook, _)| {
            let is_held_back = is_held_back(hook, places);
            held_back += usize::from(is_held_back);
            !is_held_back || held_back <= places.held_back
        });
        let due_delivery = |delivery: &Delivery| {
            let event = self.state.events.iter().find(|(event, _)| event.id == delivery.event_id);
            let event = event.map(|(event, _)| event);
            DueDelivery {
                delivery: delivery.clone(),
                body: event.map(|event| event.body.clone()).unwrap_or_default(),
                trace: event.and_then(|event| event.trace),
            }
        };
        let leases: Vec<Lease> = due
            .take(places.hooks)
            .filter_map(|(_, hook, deliveries)| {
                let run = if is_held_back(hook, places) { 1 } else { places.run };
                let database = self.state.databases.get(&hook.database_id)?.locator.clone();
                let deliveries = deliveries.into_iter().take(run).map(due_delivery).collect();
                Some(Lease { hook: hook.clone(), database, deliveries, until })
            })
            .collect();
        for lease in &leases {
            if let Some(held) = self.change()?.hooks.get_mut(&lease.hook.id) {
                held.lease = Some((holder.to_owned(), until));
            }
        }
        Ok(leases)
    }

    fn held(&mut self, holder: &str, leases: &[(HookId, Timestamp)]) -> Result<Vec<(Hook, Timestamp)>> {
        let held = leases.iter().filter_map(|(hook, until)| {
            let lease = |held: &&Held| held.lease.as_ref().is_some_and(|(by, end)| by == holder && end == until);
            self.state.hooks.get(hook).filter(lease).map(|held| (held.hook.clone(), *until))
        });
        Ok(held.collect())
    }

    fn release(&mut self, hooks: &[HookId]) -> Result<()> {
        self.needs(WriteKey::Server);
        for hook in hooks {
            if let Some(held) = self.change()?.hooks.get_mut(hook) {
                held.lease = None;
            }
        }
        Ok(())
    }

    fn recover(&mut self, holder: &str) -> Result<u64> {
        self.needs(WriteKey::Server);
        let all = self.change()?.hooks.values_mut();
        let held = all.filter(|held| held.lease.as_ref().is_some_and(|(by, _)| by == holder));
        Ok(count(held.map(|held| held.lease = None).count()))
    }

    fn backlog(&mut self, now: Timestamp) -> Result<DeliveryBacklog> {
        let all = self.state.deliveries.values().filter_map(|logged| due_at(&logged.delivery));
        let due: Vec<Timestamp> = all.filter(|at| *at <= now).collect();
        let waiting = self.events().list_waiting(usize::MAX)?.len();
        Ok(DeliveryBacklog { events: count(waiting), due: count(due.len()), oldest_due_at: due.into_iter().min() })
    }

    fn purge(&mut self, before: Timestamp, limit: usize) -> Result<u64> {
        let all = self.state.deliveries.values().map(|logged| &logged.delivery);
        let old = all.filter(|delivery| delivery.finished_at().is_some_and(|at| at < before)).map(|d| d.id);
        let old = page(old, limit);
        for id in &old {
            self.change()?.deliveries.remove(id);
        }
        Ok(count(old.len()))
    }
}

impl AttemptRepository for MemoryTransaction<'_> {
    fn list(&mut self, delivery: DeliveryId) -> Result<Vec<Attempt>> {
        Ok(self.state.deliveries.get(&delivery).map(|logged| logged.attempts.clone()).unwrap_or_default())
    }

    fn add(&mut self, delivery: &Delivery, attempt: &Attempt, request: &Request, keep: usize) -> Result<()> {
        self.needs(WriteKey::Server);
        if !self.deliveries().update(delivery)? {
            return Err(missing("log an attempt"));
        }
        let logged = self.change()?.deliveries.get_mut(&delivery.id).ok_or_else(|| missing("log an attempt"))?;
        logged.request = Some(request.clone());
        logged.attempts.push(attempt.clone());
        let surplus = logged.attempts.len().saturating_sub(keep);
        logged.attempts.drain(..surplus);
        Ok(())
    }
}
