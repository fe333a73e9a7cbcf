//! Saved answers and the outbox.

use std::collections::BTreeSet;

use super::{MemoryTransaction, Result, count, page};
use branchyard_domain::entities::Event;
use branchyard_domain::ports::{EventRepository, IdempotencyRepository, MetadataError, SavedAnswer, WriteKey};
use branchyard_domain::values::{AccountId, DatabaseId, EventId, Timestamp};

impl IdempotencyRepository for MemoryTransaction<'_> {
    fn add(&mut self, answer: &SavedAnswer) -> Result<()> {
        let key = (answer.caller, answer.scope.clone(), answer.key.clone());
        if self.state.answers.contains_key(&key) {
            return Err(MetadataError::Taken);
        }
        self.change()?.answers.insert(key, answer.clone());
        Ok(())
    }

    fn get(&mut self, caller: AccountId, scope: &str, key: &str, not_before: Timestamp) -> Result<Option<SavedAnswer>> {
        let found = self.state.answers.get(&(caller, scope.to_owned(), key.to_owned()));
        Ok(found.filter(|answer| answer.created_at >= not_before).cloned())
    }

    fn purge(&mut self, before: Timestamp) -> Result<u64> {
        let answers = &mut self.change()?.answers;
        let had = answers.len();
        answers.retain(|_, answer| answer.created_at >= before);
        Ok(count(had - answers.len()))
    }
}

impl EventRepository for MemoryTransaction<'_> {
    fn add(&mut self, event: &Event) -> Result<()> {
        self.needs(WriteKey::Database(event.database_id));
        self.change()?.events.push((event.clone(), false));
        Ok(())
    }

    fn list(&mut self, database: DatabaseId, after: Option<EventId>, limit: usize) -> Result<Vec<Event>> {
        let events = self.state.events.iter().map(|(event, _)| event);
        let seen = after.and_then(|after| events.clone().position(|event| event.id == after));
        let later = events.skip(seen.map_or(0, |at| at + 1));
        // If the event at `after` was purged, later events are found by their ids.
        let later = later.filter(|event| seen.is_some() || after.is_none_or(|after| event.id > after));
        Ok(page(later.filter(|event| event.database_id == database).cloned(), limit))
    }

    fn list_waiting(&mut self, limit: usize) -> Result<Vec<Event>> {
        let waiting = self.state.events.iter().filter(|(_, dispatched)| !dispatched);
        Ok(page(waiting.map(|(event, _)| event.clone()), limit))
    }

    fn mark_dispatched(&mut self, id: EventId, _at: Timestamp) -> Result<()> {
        self.needs(WriteKey::Server);
        let wanted = self.state.deliveries.values().any(|logged| logged.delivery.event_id == id);
        let events = &mut self.change()?.events;
        events.retain(|(event, _)| wanted || event.id != id);
        if let Some((_, dispatched)) = events.iter_mut().find(|(event, _)| event.id == id) {
            *dispatched = true;
        }
        Ok(())
    }

    fn purge(&mut self) -> Result<u64> {
        let wanted: BTreeSet<EventId> = self.state.deliveries.values().map(|logged| logged.delivery.event_id).collect();
        let events = &mut self.change()?.events;
        let had = events.len();
        events.retain(|(event, dispatched)| !dispatched || wanted.contains(&event.id));
        Ok(count(had - events.len()))
    }
}
