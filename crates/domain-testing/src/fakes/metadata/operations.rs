//! Operations and their leases.

use std::collections::BTreeMap;

use super::state::Leased;
use super::{MemoryTransaction, Result, count, page};
use branchyard_domain::entities::{Operation, OperationKind, OperationStatus, Work};
use branchyard_domain::ports::{
    LeaseTurn, MetadataError, OperationBacklog, OperationFilter, OperationRepository, OperationState, WriteKey,
};
use branchyard_domain::values::{AccountId, DatabaseId, DatabaseName, OperationId, Timestamp};

fn state_of(operation: &Operation) -> OperationState {
    match operation.status {
        OperationStatus::Queued => OperationState::Queued,
        OperationStatus::Running => OperationState::Running,
        OperationStatus::Succeeded(_) => OperationState::Succeeded,
        OperationStatus::Failed(_) => OperationState::Failed,
    }
}

impl Leased {
    fn is(&self, state: OperationState) -> bool {
        state_of(&self.operation) == state
    }

    fn lease_is_live(&self, now: Timestamp) -> bool {
        self.is(OperationState::Running) && self.lease.as_ref().is_some_and(|(_, until)| *until > now)
    }

    fn held_by(&self, holder: &str) -> bool {
        self.is(OperationState::Running) && self.lease.as_ref().is_some_and(|(held_by, _)| held_by == holder)
    }
}

impl MemoryTransaction<'_> {
    fn listed(
        &self,
        wanted: impl Fn(&Operation) -> bool,
        filter: OperationFilter,
        before: Option<OperationId>,
        limit: usize,
    ) -> Vec<Operation> {
        let found = self.state.operations.values().rev().map(|leased| &leased.operation).filter(|o| {
            wanted(o)
                && filter.state.is_none_or(|state| state_of(o) == state)
                && filter.kinds.is_none_or(|kinds| kinds.contains(&o.work.kind()))
                && before.is_none_or(|before| o.id < before)
        });
        page(found.cloned(), limit)
    }

    fn leased(&mut self, id: OperationId, holder: &str) -> Result<Option<&mut Leased>> {
        Ok(self.change()?.operations.get_mut(&id).filter(|leased| leased.held_by(holder)))
    }
}

impl OperationRepository for MemoryTransaction<'_> {
    fn add(&mut self, operation: &Operation) -> Result<()> {
        self.needs(WriteKey::Database(operation.database_id));
        if self.state.operations.contains_key(&operation.id) {
            return Err(MetadataError::Taken);
        }
        let leased = Leased { operation: operation.clone(), lease: None };
        self.change()?.operations.insert(operation.id, leased);
        Ok(())
    }

    fn get(&mut self, id: OperationId) -> Result<Option<Operation>> {
        Ok(self.state.operations.get(&id).map(|leased| leased.operation.clone()))
    }

    fn list(
        &mut self,
        database: DatabaseId,
        filter: OperationFilter,
        before: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<Operation>> {
        Ok(self.listed(|o| o.database_id == database, filter, before, limit))
    }

    fn list_by(
        &mut self,
        creator: AccountId,
        filter: OperationFilter,
        before: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<Operation>> {
        Ok(self.listed(|o| o.created_by == creator, filter, before, limit))
    }

    fn nth_newest_of(&mut self, owner: AccountId, after: Timestamp, n: u64) -> Result<Option<Timestamp>> {
        let counts_for = |operation: &Operation| match &operation.work {
            Work::Fork { owner_id, .. } => Some(*owner_id),
            _ => self.state.databases.get(&operation.database_id).map(|database| database.owner_id),
        };
        let all = self.state.operations.values().map(|leased| &leased.operation);
        let of_owner = all.filter(|o| o.created_at > after && counts_for(o) == Some(owner));
        let mut times: Vec<Timestamp> = of_owner.map(|o| o.created_at).collect();
        times.sort_by_key(|time| std::cmp::Reverse(*time));
        let place = usize::try_from(n).unwrap_or(usize::MAX).saturating_sub(1);
        Ok(times.get(place).copied())
    }

    fn count_queued(&mut self, database: DatabaseId) -> Result<u64> {
        let queued = self.state.operations.values().filter(|l| l.is(OperationState::Queued));
        Ok(count(queued.filter(|l| l.operation.database_id == database).count()))
    }

    fn pending(&mut self, database: DatabaseId) -> Result<Vec<Operation>> {
        let all = self.state.operations.values().map(|leased| &leased.operation);
        Ok(all.filter(|o| o.database_id == database && !o.settled()).cloned().collect())
    }

    fn lease(
        &mut self,
        holder: &str,
        now: Timestamp,
        until: Timestamp,
        turn: LeaseTurn<'_>,
    ) -> Result<Option<Operation>> {
        // The candidate of each database: a running operation goes before queued ones.
        let mut turns = BTreeMap::<DatabaseId, &Leased>::new();
        for leased in self.state.operations.values().filter(|leased| !leased.operation.settled()) {
            let turn = turns.entry(leased.operation.database_id).or_insert(leased);
            if turn.is(OperationState::Queued) && leased.is(OperationState::Running) {
                *turn = leased;
            }
        }
        let is_collected = |operation: &Operation| {
            let record = self.state.collections.get(&operation.database_id);
            record.and_then(|record| record.lease.as_ref()).is_some_and(|(_, until)| *until > now)
        };
        let free = turns.values().filter(|leased| !leased.lease_is_live(now)).map(|leased| &leased.operation);
        let free = free.filter(|operation| turn.kind.is_none_or(|kind| operation.work.kind() == kind));
        let free = free.filter(|operation| !self.state.is_quarantined(operation.database_id));
        let free = free.filter(|operation| !is_collected(operation));
        let of_creators = free.filter(|operation| !turn.without.contains(&operation.created_by));
        let had_its_turn = |creator: AccountId| turn.after.is_some_and(|after| creator <= after);
        let next = of_creators.map(|o| (had_its_turn(o.created_by), o.created_by, o.id)).min();
        let Some((_, _, id)) = next else { return Ok(None) };
        let Some(leased) = self.change()?.operations.get_mut(&id) else { return Ok(None) };
        leased.lease = Some((holder.to_owned(), until));
        leased.operation.status = OperationStatus::Running;
        leased.operation.attempts += 1;
        leased.operation.started_at = leased.operation.started_at.or(Some(now));
        Ok(Some(leased.operation.clone()))
    }

    fn extend_lease(&mut self, id: OperationId, holder: &str, until: Timestamp) -> Result<bool> {
        let Some(leased) = self.leased(id, holder)? else { return Ok(false) };
        leased.lease = Some((holder.to_owned(), until));
        Ok(true)
    }

    fn settle(&mut self, operation: &Operation, holder: Option<&str>) -> Result<bool> {
        self.needs(WriteKey::Database(operation.database_id));
        let Some(leased) = self.change()?.operations.get_mut(&operation.id) else { return Ok(false) };
        let in_state = match holder {
            Some(holder) => leased.held_by(holder),
            None => leased.is(OperationState::Queued),
        };
        if in_state {
            leased.lease = None;
            leased.operation.status = operation.status.clone();
            leased.operation.started_at = operation.started_at;
            leased.operation.finished_at = operation.finished_at;
        }
        Ok(in_state)
    }

    fn backlog(&mut self) -> Result<OperationBacklog> {
        let of = |state| count(self.state.operations.values().filter(|leased| leased.is(state)).count());
        Ok(OperationBacklog { queued: of(OperationState::Queued), running: of(OperationState::Running) })
    }

    fn recover(&mut self, node: &str) -> Result<u64> {
        let mut freed = 0;
        let of_node = format!("{node}/");
        for leased in self.change()?.operations.values_mut().filter(|l| l.is(OperationState::Running)) {
            let ended = leased.lease.take_if(|(holder, _)| holder.starts_with(&of_node));
            freed += u64::from(ended.is_some());
        }
        Ok(freed)
    }

    fn release(&mut self, holder: &str, counts: bool) -> Result<()> {
        for leased in self.change()?.operations.values_mut().filter(|leased| leased.held_by(holder)) {
            leased.lease = None;
            leased.operation.status = OperationStatus::Queued;
            leased.operation.attempts -= u32::from(!counts);
        }
        Ok(())
    }

    fn is_held_up(&mut self, database: DatabaseId, now: Timestamp) -> Result<bool> {
        let is_unsettled = |leased: &Leased| leased.operation.database_id == database && !leased.operation.settled();
        let lease = self.state.collections.get(&database).and_then(|record| record.lease.as_ref());
        let is_collected = lease.is_some_and(|(_, until)| *until > now);
        Ok(is_collected || self.state.operations.values().any(is_unsettled))
    }

    fn is_forking_to(&mut self, owner: AccountId, name: &DatabaseName) -> Result<bool> {
        let unsettled = self.state.operations.values().map(|l| &l.operation).filter(|o| !o.settled());
        let to_owner = |work: &Work| matches!(work, Work::Fork { owner_id, .. } if *owner_id == owner);
        Ok(unsettled.filter(|o| to_owner(&o.work)).any(|o| o.locator.name.key() == name.key()))
    }

    fn replace_work(&mut self, id: OperationId, work: &Work) -> Result<()> {
        if let Some(leased) = self.change()?.operations.get_mut(&id) {
            leased.operation.work = work.clone();
        }
        Ok(())
    }

    fn purge(&mut self, before: Timestamp) -> Result<u64> {
        let operations = &mut self.change()?.operations;
        let had = operations.len();
        operations.retain(|_, l| l.operation.finished_at.is_none_or(|at| at >= before));
        Ok(count(had - operations.len()))
    }

    fn trim(&mut self, database: DatabaseId, kind: OperationKind, keep: usize) -> Result<u64> {
        self.needs(WriteKey::Database(database));
        let operations = &mut self.change()?.operations;
        let is_of = |operation: &Operation| {
            operation.database_id == database && operation.work.kind() == kind && operation.finished_at.is_some()
        };
        let older: Vec<OperationId> =
            operations.iter().rev().filter(|(_, l)| is_of(&l.operation)).map(|(id, _)| *id).skip(keep).collect();
        older.iter().for_each(|id| drop(operations.remove(id)));
        Ok(count(older.len()))
    }
}
