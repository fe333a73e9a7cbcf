//! Instances: listing, starting, removing and rebooting them.

use super::capacity::{CapacityOwner, CapacityRequest, admit, choose};
use super::create::{new_instance, switched_off, too_small};
use super::shutdown::{begin, not_settled};
use super::{Deployments, live, metering, operations, primary, update};
use crate::access::{DeploymentAccess, DeploymentLevel, Manage};
use crate::entities::{Deployment, DeploymentOperation, DeploymentWork, Instance, Metered, RunState, Shutdown};
use crate::errors::{DeploymentError, DeploymentField};
use crate::ports::DeploymentTransaction;
use crate::ports::{BackupFile, DatabaseSeed, SupervisorEvent};
use crate::values::{BackupId, InstanceId};
use branchyard_domain::entities::MemberRole;
use branchyard_domain::errors::PortError;
use branchyard_domain::ports::{Durability, WriteKeys};
use branchyard_domain::usecases::IdempotencyRecord;
use branchyard_domain::values::AccountId;

/// A request to start an instance.
#[derive(Debug, Clone)]
pub struct NewInstance {
    /// Id of the instance type.
    pub instance_type: String,
    /// Id of the storage option.
    pub volume_type: String,
    /// Size of the volume in gigabytes.
    pub volume_gb: u32,
    /// The backup to restore. `None` starts with an empty database.
    pub backup: Option<BackupId>,
}

/// Returns an instance of the deployment by id.
pub(super) fn of_deployment(
    tx: &mut dyn DeploymentTransaction,
    deployment: &Deployment,
    id: &str,
) -> Result<Instance, DeploymentError> {
    let missing = || DeploymentError::Absent { what: "instance", name: id.to_owned() };
    let id = InstanceId::parse(id).map_err(|_| missing())?;
    tx.instances().get(id)?.filter(|instance| instance.deployment_id == deployment.id).ok_or_else(missing)
}

impl Deployments {
    /// Returns the instances that are not stopped, sorted by index.
    ///
    /// # Errors
    /// [`DeploymentError::Port`] if the store fails.
    pub fn instances<L: DeploymentLevel>(
        &self,
        access: &DeploymentAccess<L>,
    ) -> Result<Vec<Instance>, DeploymentError> {
        let mut tx = self.0.ports.store.read_deployments()?;
        let deployment = live(tx.as_mut(), access)?;
        let mut instances = tx.instances().list(deployment.id)?;
        instances.retain(|instance| instance.state != RunState::Stopped);
        instances.sort_by_key(|instance| instance.index);
        Ok(instances)
    }

    /// Starts a stopped deployment again, from a backup or empty. On a started deployment the instance would be a read
    /// replica, which is not offered.
    ///
    /// # Errors
    /// - [`DeploymentError::Conflict`] while the deployment is starting or stopping.
    /// - [`DeploymentError::BadField`] if a backup is requested and the deployment is not stopped.
    /// - [`DeploymentError::Field`], [`DeploymentError::Unsupported`], [`DeploymentError::Spending`] and
    ///   [`DeploymentError::Capacity`] as for [`Deployments::create`].
    pub fn start(
        &self,
        access: &DeploymentAccess<Manage>,
        wanted: &NewInstance,
        once: Option<&IdempotencyRecord<'_, Instance>>,
    ) -> Result<Instance, DeploymentError> {
        let now = self.0.now();
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        let mut deployment = live(tx.as_mut(), access)?;
        if deployment.state != RunState::Stopped && wanted.backup.is_some() {
            return Err(DeploymentError::BadField {
                field: DeploymentField::Backup,
                why: "only a stopped deployment starts from a backup".to_owned(),
            });
        }
        match deployment.state {
            RunState::Started => {
                return Err(DeploymentError::Unsupported("this zone does not offer read replicas".to_owned()));
            }
            RunState::Starting | RunState::Stopping => return Err(not_settled(&deployment)),
            RunState::Stopped => {}
        }
        let (cloud, zone) = (deployment.cloud.clone(), deployment.zone.clone());
        let chosen = CapacityRequest {
            cloud: &cloud,
            zone: &zone,
            instance_type: &wanted.instance_type,
            volume_type: &wanted.volume_type,
            volume_gb: wanted.volume_gb,
        };
        let size = choose(&self.0, &chosen)?;
        let seeds = match wanted.backup {
            Some(id) => {
                let found = tx.backups().get(deployment.id, id)?;
                let backup = found.ok_or_else(|| DeploymentError::Field {
                    field: DeploymentField::Backup,
                    why: format!("there is no backup {id}"),
                })?;
                if backup.size_bytes() > u64::from(wanted.volume_gb) << 30 {
                    return Err(too_small());
                }
                deployment.databases = backup.databases.iter().map(|database| database.name.clone()).collect();
                let seed = |content: crate::ports::CopiedDatabase| DatabaseSeed::Backup {
                    file: BackupFile { deployment: deployment.id, backup: id, database: content.name.clone() },
                    content,
                };
                backup.databases.into_iter().map(seed).collect()
            }
            // An empty start has only the default database: the content of the others is gone.
            None => {
                deployment.databases.truncate(1);
                vec![DatabaseSeed::Empty { author: access.who().signature(now) }]
            }
        };
        if !self.0.settings.enabled {
            return Err(switched_off());
        }
        let owner_name = deployment.locator.owner.clone();
        let owner = CapacityOwner { id: deployment.owner_id, name: &owner_name };
        let port = admit(&self.0, tx.as_mut(), &owner, &chosen, &size)?;
        deployment.state.go(RunState::Starting).map_err(|refused| DeploymentError::Conflict(refused.to_string()))?;
        deployment.disabled = None;
        deployment.last_error = None;
        let instance = new_instance(&self.0, &deployment, size, port, seeds, now);
        update(tx.as_mut(), &mut deployment)?;
        tx.instances().add(&instance)?;
        metering::open(tx.as_mut(), &deployment, &instance, Metered::Storage, now)?;
        self.0.hub.keep_answer(tx.as_mut(), once, &instance, now)?;
        tx.commit(Durability::Synced)?;
        self.0.wake.one();
        Ok(instance)
    }

    /// Removes an instance. Removing the primary shuts the deployment down.
    ///
    /// # Errors
    /// - [`DeploymentError::Absent`] if there is no such instance.
    /// - [`DeploymentError::Unprocessable`] if the instance is stopped.
    /// - [`DeploymentError::Conflict`] unless the deployment is started.
    pub fn remove_instance(&self, access: &DeploymentAccess<Manage>, id: &str) -> Result<Instance, DeploymentError> {
        let now = self.0.now();
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        let mut deployment = live(tx.as_mut(), access)?;
        let mut instance = of_deployment(tx.as_mut(), &deployment, id)?;
        if instance.state == RunState::Stopped {
            return Err(DeploymentError::Unprocessable("the instance is already stopped".to_owned()));
        }
        if deployment.state != RunState::Started {
            return Err(not_settled(&deployment));
        }
        let shutdown = Shutdown { final_backup: instance.prepared, not_before: None };
        begin(tx.as_mut(), &mut deployment, &mut instance, shutdown, now)?;
        tx.commit(Durability::Synced)?;
        self.0.wake.one();
        Ok(instance)
    }

    /// Accepts a reboot: the instance is drained and started again.
    ///
    /// # Errors
    /// [`DeploymentError::Absent`] if the instance does not exist or is stopped.
    pub fn reboot(
        &self,
        access: &DeploymentAccess<Manage>,
        id: &str,
        once: Option<&IdempotencyRecord<'_, DeploymentOperation>>,
    ) -> Result<DeploymentOperation, DeploymentError> {
        let now = self.0.now();
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        let deployment = live(tx.as_mut(), access)?;
        let instance = of_deployment(tx.as_mut(), &deployment, id)?;
        if instance.state == RunState::Stopped {
            return Err(DeploymentError::Absent { what: "instance", name: id.to_owned() });
        }
        let work = DeploymentWork::RebootInstance(instance.id);
        let operation = operations::accept(&self.0, tx.as_mut(), &deployment, access.who(), work, now)?;
        self.0.hub.keep_answer(tx.as_mut(), once, &operation, now)?;
        tx.commit(Durability::Synced)?;
        self.0.wake.one();
        Ok(operation)
    }

    /// Shuts a deployment down and makes a final backup of its data. Metering ends when the shutdown is complete.
    ///
    /// # Errors
    /// [`DeploymentError::Unprocessable`] if the deployment is stopping or stopped.
    pub fn disable(
        &self,
        access: &DeploymentAccess<Manage>,
        once: Option<&IdempotencyRecord<'_, Deployment>>,
    ) -> Result<Deployment, DeploymentError> {
        let now = self.0.now();
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        let mut deployment = live(tx.as_mut(), access)?;
        if matches!(deployment.state, RunState::Stopping | RunState::Stopped) {
            let text = format!("{} is already stopping or stopped", deployment.locator);
            return Err(DeploymentError::Unprocessable(text));
        }
        let mut instance = primary(tx.as_mut(), deployment.id)?;
        deployment.disabled = Some((now, access.who().name.clone()));
        let shutdown = Shutdown { final_backup: instance.prepared, not_before: None };
        begin(tx.as_mut(), &mut deployment, &mut instance, shutdown, now)?;
        self.0.hub.keep_answer(tx.as_mut(), once, &deployment, now)?;
        tx.commit(Durability::Synced)?;
        self.0.wake.one();
        Ok(deployment)
    }

    /// Returns `true` if the caller may discard the data of the deployment: the owning user, and the owners of the owning
    /// organization.
    ///
    /// # Errors
    /// [`DeploymentError::Port`] if the store fails.
    pub fn may_discard<L: DeploymentLevel>(&self, access: &DeploymentAccess<L>) -> Result<bool, DeploymentError> {
        let mut tx = self.0.ports.store.read_deployments()?;
        Ok(owns(tx.as_mut(), access.who().id, access.deployment().owner_id)?)
    }

    /// Shuts a deployment down without a final backup, also if it is stopping already, and its final backup may never
    /// succeed. `confirm` has to be the name of the deployment.
    ///
    /// # Errors
    /// - [`DeploymentError::OwnerOnly`] if the caller neither owns the deployment nor is an owner of its organization.
    /// - [`DeploymentError::Unconfirmed`] if `confirm` is not the name.
    /// - [`DeploymentError::Unprocessable`] if the deployment is stopped.
    pub fn discard(
        &self,
        access: &DeploymentAccess<Manage>,
        confirm: &str,
        once: Option<&IdempotencyRecord<'_, Deployment>>,
    ) -> Result<Deployment, DeploymentError> {
        let now = self.0.now();
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        let mut deployment = live(tx.as_mut(), access)?;
        if !owns(tx.as_mut(), access.who().id, deployment.owner_id)? {
            return Err(DeploymentError::OwnerOnly);
        }
        if confirm != deployment.locator.name.as_str() {
            return Err(DeploymentError::Unconfirmed(deployment.locator.name.to_string()));
        }
        let mut instance = primary(tx.as_mut(), deployment.id)?;
        let shutdown = Shutdown { final_backup: false, not_before: None };
        if deployment.disabled.is_none() {
            deployment.disabled = Some((now, access.who().name.clone()));
        }
        match deployment.state {
            RunState::Stopped => {
                let text = format!("{} is stopped; its data is removed already", deployment.locator);
                return Err(DeploymentError::Unprocessable(text));
            }
            RunState::Stopping => {
                instance.shutdown = Some(shutdown);
                tx.instances().update(&instance)?;
                update(tx.as_mut(), &mut deployment)?;
            }
            RunState::Starting | RunState::Started => {
                begin(tx.as_mut(), &mut deployment, &mut instance, shutdown, now)?;
            }
        }
        self.0.hub.keep_answer(tx.as_mut(), once, &deployment, now)?;
        tx.commit(Durability::Synced)?;
        // Best effort: the folder of the log may be missing, and with it the data.
        let discarded = SupervisorEvent::DataDiscarded { by: access.who().name.clone() };
        let _ = self.0.ports.provisioner.record(instance.id, &discarded);
        self.0.wake.one();
        Ok(deployment)
    }
}

/// Returns `true` for the owning user, and for owners of the owning organization.
fn owns(tx: &mut dyn DeploymentTransaction, user: AccountId, owner: AccountId) -> Result<bool, PortError> {
    if owner == user {
        return Ok(true);
    }
    Ok(tx.members().get(owner, user)?.is_some_and(|member| member.role == MemberRole::Owner))
}
