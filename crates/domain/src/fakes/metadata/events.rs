//! Saved answers and the outbox.

use super::{MemoryUnit, Result, count, page};
use crate::entities::Event;
use crate::ports::{EventRepository, IdempotencyRepository, MetadataError, SavedAnswer};
use crate::values::{AccountId, DatabaseId, EventId, Timestamp};

impl IdempotencyRepository for MemoryUnit<'_> {
    fn answer_add(&mut self, answer: &SavedAnswer) -> Result<()> {
        let key = (answer.caller, answer.scope.clone(), answer.key.clone());
        if self.state.answers.contains_key(&key) {
            return Err(MetadataError::Taken);
        }
        self.change()?.answers.insert(key, answer.clone());
        Ok(())
    }

    fn answer_get(
        &mut self,
        caller: AccountId,
        scope: &str,
        key: &str,
        not_before: Timestamp,
    ) -> Result<Option<SavedAnswer>> {
        let found = self.state.answers.get(&(caller, scope.to_owned(), key.to_owned()));
        Ok(found.filter(|answer| answer.created_at >= not_before).cloned())
    }

    fn answer_purge(&mut self, before: Timestamp) -> Result<u64> {
        let answers = &mut self.change()?.answers;
        let had = answers.len();
        answers.retain(|_, answer| answer.created_at >= before);
        Ok(count(had - answers.len()))
    }
}

impl EventRepository for MemoryUnit<'_> {
    fn event_add(&mut self, event: &Event) -> Result<()> {
        self.change()?.events.push(event.clone());
        Ok(())
    }

    fn event_list(&mut self, database: DatabaseId, after: Option<EventId>, limit: usize) -> Result<Vec<Event>> {
        let events = &self.state.events;
        let seen = after.and_then(|after| events.iter().position(|event| event.id == after));
        let later = events.iter().skip(seen.map_or(0, |at| at + 1));
        // An event that was purged is told from those after it by its id.
        let later = later.filter(|event| seen.is_some() || after.is_none_or(|after| event.id > after));
        Ok(page(later.filter(|event| event.database_id == database).cloned(), limit))
    }

    fn event_purge(&mut self, before: Timestamp) -> Result<u64> {
        let events = &mut self.change()?.events;
        let had = events.len();
        events.retain(|event| event.at >= before);
        Ok(count(had - events.len()))
    }
}
