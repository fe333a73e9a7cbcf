//! Deployments, their instances and collaborators.

use super::{MemoryTransaction, Result, count, missing, page};
use branchyard_deployments::entities::{Deployment, DeploymentCollaborator, DeploymentRole, Instance, RunState};
use branchyard_deployments::ports::{
    DeploymentCollaboratorRepository, DeploymentRepositories, DeploymentRepository, InstanceRepository,
};
use branchyard_deployments::values::{DeploymentId, DeploymentName, InstanceId};
use branchyard_domain::ports::MetadataError;
use branchyard_domain::values::{AccountId, OwnerName, Timestamp};

impl DeploymentRepository for MemoryTransaction<'_> {
    fn add(&mut self, deployment: &Deployment) -> Result<()> {
        let locator = &deployment.locator;
        if self.deployments().by_name(&locator.owner, &locator.name)?.is_some() {
            return Err(MetadataError::Taken);
        }
        self.change()?.deployments.insert(deployment.id, deployment.clone());
        Ok(())
    }

    fn by_name(&mut self, owner: &OwnerName, name: &DeploymentName) -> Result<Option<Deployment>> {
        let mut live = self.state.deployments.values().filter(|deployment| deployment.deleted_at.is_none());
        let same = |d: &&Deployment| d.locator.owner.key() == owner.key() && d.locator.name.key() == name.key();
        Ok(live.find(same).cloned())
    }

    fn identity(&mut self, owner: &OwnerName, name: &DeploymentName) -> Result<Option<(DeploymentId, AccountId)>> {
        let found = self.deployments().by_name(owner, name)?.filter(|deployment| deployment.removed_at.is_none());
        Ok(found.map(|deployment| (deployment.id, deployment.owner_id)))
    }

    fn get(&mut self, id: DeploymentId) -> Result<Option<Deployment>> {
        Ok(self.state.deployments.get(&id).cloned())
    }

    fn update(&mut self, deployment: &Deployment) -> Result<bool> {
        let fits = self.state.deployments.get(&deployment.id).is_some_and(|held| held.version == deployment.version);
        if fits {
            let changed = Deployment { version: deployment.version + 1, ..deployment.clone() };
            self.change()?.deployments.insert(deployment.id, changed);
        }
        Ok(fits)
    }

    fn list(
        &mut self,
        owner: AccountId,
        state: Option<RunState>,
        before: Option<DeploymentId>,
        limit: usize,
    ) -> Result<Vec<Deployment>> {
        let newest = self.state.deployments.values().rev();
        let wanted = newest.filter(|deployment| {
            deployment.owner_id == owner
                && deployment.removed_at.is_none()
                && state.is_none_or(|state| deployment.state == state)
                && before.is_none_or(|before| deployment.id < before)
        });
        Ok(page(wanted.cloned(), limit))
    }

    fn count_active(&mut self, owner: AccountId) -> Result<u64> {
        let active = |d: &&Deployment| d.owner_id == owner && d.state != RunState::Stopped;
        Ok(count(self.state.deployments.values().filter(active).count()))
    }

    fn busy(&mut self, node: &str) -> Result<Vec<DeploymentId>> {
        let of_node = self.state.deployments.values().filter(|d| d.node == node);
        let all: Vec<(DeploymentId, RunState)> = of_node.map(|d| (d.id, d.state)).collect();
        let mut busy = Vec::new();
        for (id, state) in all {
            if state != RunState::Stopped || !self.deployment_operations().pending(id)?.is_empty() {
                busy.push(id);
            }
        }
        Ok(busy)
    }
}

impl DeploymentCollaboratorRepository for MemoryTransaction<'_> {
    fn put(&mut self, deployment: DeploymentId, user: AccountId, role: DeploymentRole, at: Timestamp) -> Result<bool> {
        if !self.state.deployments.contains_key(&deployment) || !self.state.users.contains_key(&user) {
            return Err(missing("put a collaborator of a deployment"));
        }
        let added = !self.state.deployment_collaborators.contains_key(&(deployment, user));
        self.change()?.deployment_collaborators.entry((deployment, user)).or_insert((role, at)).0 = role;
        Ok(added)
    }

    fn get(&mut self, deployment: DeploymentId, user: AccountId) -> Result<Option<DeploymentCollaborator>> {
        let Some((role, added_at)) = self.state.deployment_collaborators.get(&(deployment, user)) else {
            return Ok(None);
        };
        let found = self.state.users.get(&user);
        Ok(found.map(|found| DeploymentCollaborator {
            user_id: user,
            username: found.name.clone(),
            role: *role,
            added_at: *added_at,
        }))
    }

    fn remove(&mut self, deployment: DeploymentId, user: AccountId) -> Result<Option<DeploymentCollaborator>> {
        let found = self.deployment_collaborators().get(deployment, user)?;
        self.change()?.deployment_collaborators.remove(&(deployment, user));
        Ok(found)
    }

    fn list(&mut self, deployment: DeploymentId) -> Result<Vec<DeploymentCollaborator>> {
        let keys = self.state.deployment_collaborators.keys();
        let users: Vec<AccountId> = keys.filter(|(id, _)| *id == deployment).map(|(_, user)| *user).collect();
        let mut found = Vec::new();
        for user in users {
            found.extend(self.deployment_collaborators().get(deployment, user)?);
        }
        found.sort_by_key(|collaborator| collaborator.username.key());
        Ok(found)
    }
}

impl MemoryTransaction<'_> {
    fn port_is_taken(&self, instance: &Instance) -> bool {
        let holds = |other: &&Instance| other.id != instance.id && other.port == instance.port;
        let live = |other: &&Instance| other.state != RunState::Stopped;
        instance.state != RunState::Stopped && self.state.instances.values().filter(live).any(|other| holds(&other))
    }
}

impl InstanceRepository for MemoryTransaction<'_> {
    fn add(&mut self, instance: &Instance) -> Result<()> {
        if self.port_is_taken(instance) {
            return Err(MetadataError::Taken);
        }
        self.change()?.instances.insert(instance.id, instance.clone());
        Ok(())
    }

    fn update(&mut self, instance: &Instance) -> Result<bool> {
        if self.port_is_taken(instance) {
            return Err(MetadataError::Taken);
        }
        let there = self.state.instances.contains_key(&instance.id);
        if there {
            self.change()?.instances.insert(instance.id, instance.clone());
        }
        Ok(there)
    }

    fn get(&mut self, id: InstanceId) -> Result<Option<Instance>> {
        Ok(self.state.instances.get(&id).cloned())
    }

    fn list(&mut self, deployment: DeploymentId) -> Result<Vec<Instance>> {
        let own = self.state.instances.values().filter(|instance| instance.deployment_id == deployment);
        Ok(own.cloned().collect())
    }

    fn active(&mut self) -> Result<Vec<(Instance, AccountId, String)>> {
        let live = self.state.instances.values().filter(|instance| instance.state != RunState::Stopped);
        let with_owner = live.filter_map(|instance| {
            let deployment = self.state.deployments.get(&instance.deployment_id)?;
            Some((instance.clone(), deployment.owner_id, deployment.zone.clone()))
        });
        Ok(with_owner.collect())
    }
}
