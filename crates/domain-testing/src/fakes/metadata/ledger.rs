//! The ledger, backups, samples and operations of deployments.

use super::{MemoryTransaction, Result, count, page};
use branchyard_deployments::entities::{Backup, DeploymentOperation, Interval, Metered};
use branchyard_deployments::ports::{
    BackupRepository, DeploymentOperationFilter, DeploymentOperationRepository, LedgerRepository, Resolution, Sample,
    SampleRepository,
};
use branchyard_deployments::values::{BackupId, DeploymentId, InstanceId};
use branchyard_domain::ports::MetadataError;
use branchyard_domain::values::{AccountId, OperationId, Timestamp};

impl MemoryTransaction<'_> {
    fn current(&mut self, instance: InstanceId, kind: Metered) -> Result<Option<&mut Interval>> {
        let open = |i: &&mut Interval| i.instance_id == instance && i.kind == kind && i.closed_at.is_none();
        Ok(self.change()?.intervals.iter_mut().find(open))
    }

    fn intervals(&self, wanted: impl Fn(&Interval) -> bool, from: Timestamp, to: Timestamp) -> Vec<Interval> {
        let within = |i: &&Interval| i.closed_at.is_none_or(|end| end > from) && i.opened_at < to;
        let mut found: Vec<Interval> =
            self.state.intervals.iter().filter(|i| wanted(i)).filter(within).cloned().collect();
        found.sort_by_key(|i| (i.deployment_id, i.instance_index, i.instance_id, i.kind, i.opened_at));
        found
    }
}

impl LedgerRepository for MemoryTransaction<'_> {
    fn open(&mut self, interval: &Interval) -> Result<()> {
        if self.current(interval.instance_id, interval.kind)?.is_some() {
            return Err(MetadataError::Taken);
        }
        self.change()?.intervals.push(interval.clone());
        Ok(())
    }

    fn current(&mut self, instance: InstanceId, kind: Metered) -> Result<Option<Interval>> {
        let open = |i: &&Interval| i.instance_id == instance && i.kind == kind && i.closed_at.is_none();
        Ok(self.state.intervals.iter().find(open).cloned())
    }

    fn last_end(&mut self, instance: InstanceId, kind: Metered) -> Result<Option<Timestamp>> {
        let own = self.state.intervals.iter().filter(|i| i.instance_id == instance && i.kind == kind);
        Ok(own.filter_map(|i| i.closed_at).max())
    }

    fn close(&mut self, instance: InstanceId, kind: Metered, at: Timestamp) -> Result<bool> {
        let open = self.current(instance, kind)?;
        let there = open.is_some();
        if let Some(interval) = open {
            interval.closed_at = Some(interval.end_at(at));
        }
        Ok(there)
    }

    fn prove(&mut self, instance: InstanceId, at: Timestamp) -> Result<()> {
        if let Some(interval) = self.current(instance, Metered::Compute)? {
            interval.proven_at = Some(at);
        }
        Ok(())
    }

    fn list(&mut self, deployment: DeploymentId, from: Timestamp, to: Timestamp) -> Result<Vec<Interval>> {
        Ok(self.intervals(|interval| interval.deployment_id == deployment, from, to))
    }

    fn list_of_owner(&mut self, owner: AccountId, from: Timestamp, to: Timestamp) -> Result<Vec<Interval>> {
        Ok(self.intervals(|interval| interval.owner_id == owner, from, to))
    }
}

impl BackupRepository for MemoryTransaction<'_> {
    fn add(&mut self, backup: &Backup) -> Result<()> {
        let key = (backup.deployment_id, backup.id);
        if self.state.backups.contains_key(&key) {
            return Err(MetadataError::Taken);
        }
        self.change()?.backups.insert(key, backup.clone());
        Ok(())
    }

    fn get(&mut self, deployment: DeploymentId, id: BackupId) -> Result<Option<Backup>> {
        Ok(self.state.backups.get(&(deployment, id)).cloned())
    }

    fn list(&mut self, deployment: DeploymentId) -> Result<Vec<Backup>> {
        let newest = self.state.backups.values().rev();
        Ok(newest.filter(|backup| backup.deployment_id == deployment).cloned().collect())
    }

    fn remove(&mut self, deployment: DeploymentId, id: BackupId) -> Result<bool> {
        Ok(self.change()?.backups.remove(&(deployment, id)).is_some())
    }
}

impl SampleRepository for MemoryTransaction<'_> {
    fn put(&mut self, instance: InstanceId, resolution: Resolution, at: Timestamp, sample: &Sample) -> Result<()> {
        self.change()?.samples.insert((instance, resolution, at), sample.clone());
        Ok(())
    }

    fn list(
        &mut self,
        instance: InstanceId,
        resolution: Resolution,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, Sample)>> {
        if from >= to {
            return Ok(Vec::new());
        }
        let range = self.state.samples.range((instance, resolution, from)..(instance, resolution, to));
        Ok(range.map(|((_, _, at), sample)| (*at, sample.clone())).collect())
    }

    fn purge(&mut self, resolution: Resolution, before: Timestamp) -> Result<u64> {
        let samples = &mut self.change()?.samples;
        let held = samples.len();
        samples.retain(|(_, kind, at), _| *kind != resolution || *at >= before);
        Ok(count(held - samples.len()))
    }

    fn clear(&mut self, deployment: DeploymentId) -> Result<()> {
        let instances = self.state.instances.clone();
        let own = |id: &InstanceId| instances.get(id).is_some_and(|instance| instance.deployment_id == deployment);
        self.change()?.samples.retain(|(instance, _, _), _| !own(instance));
        Ok(())
    }
}

impl DeploymentOperationRepository for MemoryTransaction<'_> {
    fn add(&mut self, operation: &DeploymentOperation) -> Result<()> {
        self.change()?.deployment_operations.insert(operation.id, operation.clone());
        Ok(())
    }

    fn get(&mut self, id: OperationId) -> Result<Option<DeploymentOperation>> {
        Ok(self.state.deployment_operations.get(&id).cloned())
    }

    fn update(&mut self, operation: &DeploymentOperation) -> Result<bool> {
        let open = self.state.deployment_operations.get(&operation.id).is_some_and(|held| !held.settled());
        if open {
            self.change()?.deployment_operations.insert(operation.id, operation.clone());
        }
        Ok(open)
    }

    fn list(
        &mut self,
        deployment: DeploymentId,
        filter: DeploymentOperationFilter,
        before: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<DeploymentOperation>> {
        let newest = self.state.deployment_operations.values().rev();
        let wanted = newest.filter(|operation| {
            operation.deployment_id == deployment
                && filter.state.is_none_or(|state| operation.progress.state() == state)
                && filter.kind.is_none_or(|kind| operation.work.kind() == kind)
                && before.is_none_or(|before| operation.id < before)
        });
        Ok(page(wanted.cloned(), limit))
    }

    fn pending(&mut self, deployment: DeploymentId) -> Result<Vec<DeploymentOperation>> {
        let all = self.state.deployment_operations.values();
        Ok(all.filter(|o| o.deployment_id == deployment && !o.settled()).cloned().collect())
    }

    fn purge(&mut self, before: Timestamp) -> Result<u64> {
        let operations = &mut self.change()?.deployment_operations;
        let held = operations.len();
        operations.retain(|_, o| !o.settled() || o.updated_at.unwrap_or(o.created_at) >= before);
        Ok(count(held - operations.len()))
    }
}
