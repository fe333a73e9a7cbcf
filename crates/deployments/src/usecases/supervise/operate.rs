//! Execution of the operations of a deployment, one at a time, and its nightly backups.

use super::super::backups::{NoBackup, expire, take};
use super::super::{shutdown, update};
use super::Supervisor;
use crate::entities::{
    BackupKind, Deployment, DeploymentFailure, DeploymentFailureKind, DeploymentOperation, DeploymentProgress,
    DeploymentWork, Instance, RunState,
};
use crate::values::{DeploymentId, InstanceId};
use branchyard_domain::errors::PortError;
use branchyard_domain::ports::{Durability, WriteKeys};
use branchyard_domain::values::Timestamp;

/// Seconds after which an operation that could not begin fails.
const BEGIN_SECONDS: i64 = 600;
/// Maximum seconds that a reboot may take.
const REBOOT_SECONDS: i64 = 60;
const DAY: i64 = 86_400;

fn failed(reason: &str, detail: impl Into<String>) -> DeploymentProgress {
    DeploymentProgress::Failed(DeploymentFailure::new(DeploymentFailureKind::Failed, reason, detail))
}

impl Supervisor<'_> {
    /// Continues the oldest operation of a deployment, or makes a nightly backup that is due. Returns `true` if it
    /// changed anything. May take as long as a backup.
    ///
    /// # Errors
    /// [`PortError`] if a port fails. A later call continues.
    pub fn operate(&self, id: DeploymentId) -> Result<bool, PortError> {
        self.operate_noting(id, &|_| {})
    }

    /// Continues as [`Supervisor::operate`] does, and passes the operation to `note` before.
    ///
    /// # Errors
    /// As [`Supervisor::operate`].
    pub fn operate_noting(&self, id: DeploymentId, note: &dyn Fn(&DeploymentOperation)) -> Result<bool, PortError> {
        let Some((deployment, instance)) = self.load(id)? else { return Ok(false) };
        let pending = self.0.ports.store.read_deployments()?.deployment_operations().pending(id)?;
        let Some(operation) = pending.into_iter().next() else {
            return self.back_up_nightly(&deployment, &instance);
        };
        note(&operation);
        match operation.work {
            DeploymentWork::Delete => self.delete(&deployment, operation),
            _ if matches!(deployment.state, RunState::Stopping | RunState::Stopped) => {
                self.settle(operation, failed("DISABLED", "the deployment was shut down"))
            }
            DeploymentWork::RebootInstance(instance_id) => self.reboot(&instance, instance_id, operation),
            DeploymentWork::CreateBackup => self.back_up(&deployment, &instance, operation),
        }
    }

    fn settle(&self, operation: DeploymentOperation, progress: DeploymentProgress) -> Result<bool, PortError> {
        let updated_at = Some(self.0.now());
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        tx.deployment_operations().update(&DeploymentOperation { progress, updated_at, ..operation })?;
        tx.commit(Durability::Synced)?;
        Ok(true)
    }

    /// Fails an operation that could not begin in time. Otherwise leaves it queued.
    fn wait_to_begin(&self, operation: DeploymentOperation) -> Result<bool, PortError> {
        if self.0.now() < operation.created_at.plus_seconds(BEGIN_SECONDS) {
            return Ok(false);
        }
        let detail = format!("the deployment was not settled within {BEGIN_SECONDS} s");
        let failure = DeploymentFailure::new(DeploymentFailureKind::Expired, "NOT_SETTLED", detail);
        self.settle(operation, DeploymentProgress::Failed(failure))
    }

    fn reboot(
        &self,
        instance: &Instance,
        wanted: InstanceId,
        operation: DeploymentOperation,
    ) -> Result<bool, PortError> {
        let now = self.0.now();
        if instance.id != wanted {
            return self.settle(operation, failed("NO_SUCH_INSTANCE", "the instance is gone"));
        }
        let is_up = instance.state == RunState::Started && !instance.draining;
        match (&operation.progress, is_up) {
            (DeploymentProgress::Queued, false) => self.wait_to_begin(operation),
            (DeploymentProgress::Queued, true) => {
                let begun = self.change(instance, |tx, deployment, instance| {
                    shutdown::go(deployment, instance, RunState::Starting)?;
                    instance.draining = true;
                    let running = DeploymentProgress::Running;
                    let operation = DeploymentOperation { progress: running, updated_at: Some(now), ..operation };
                    tx.deployment_operations().update(&operation)?;
                    Ok(())
                })?;
                self.0.wake.one();
                Ok(begun.is_some())
            }
            (_, true) => self.settle(operation, DeploymentProgress::Succeeded(None)),
            (_, false) => {
                let begun = operation.updated_at.unwrap_or(operation.created_at);
                if now < begun.plus_seconds(REBOOT_SECONDS) {
                    return Ok(false);
                }
                let detail = format!("the instance did not become ready within {REBOOT_SECONDS} s");
                self.settle(operation, failed("NOT_READY", detail))
            }
        }
    }

    fn back_up(
        &self,
        deployment: &Deployment,
        instance: &Instance,
        mut operation: DeploymentOperation,
    ) -> Result<bool, PortError> {
        if deployment.state != RunState::Started {
            return self.wait_to_begin(operation);
        }
        if operation.progress == DeploymentProgress::Queued {
            operation.progress = DeploymentProgress::Running;
            operation.updated_at = Some(self.0.now());
            let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
            tx.deployment_operations().update(&operation)?;
            tx.commit(Durability::Synced)?;
        }
        match take(self.0, deployment, instance, BackupKind::Manual) {
            Ok(backup) => self.settle(operation, DeploymentProgress::Succeeded(Some(backup.id))),
            Err(NoBackup::Provision(error)) => self.settle(operation, failed("BACKUP_FAILED", error.to_string())),
            Err(NoBackup::Port(fault)) => Err(fault),
        }
    }

    fn delete(&self, deployment: &Deployment, operation: DeploymentOperation) -> Result<bool, PortError> {
        let now = self.0.now();
        self.0.ports.provisioner.forget(deployment.id)?;
        let backups = self.0.ports.store.read_deployments()?.backups().list(deployment.id)?;
        for backup in &backups {
            self.0.ports.backup_files.remove_backup(deployment.id, backup.id)?;
        }
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        for backup in backups {
            tx.backups().remove(deployment.id, backup.id)?;
        }
        tx.samples().clear(deployment.id)?;
        let Some(mut deployment) = tx.deployments().get(deployment.id)? else { return Ok(false) };
        deployment.deleted_at = Some(now);
        update(tx.as_mut(), &mut deployment)?;
        let done = DeploymentProgress::Succeeded(None);
        tx.deployment_operations().update(&DeploymentOperation {
            progress: done,
            updated_at: Some(now),
            ..operation
        })?;
        tx.commit(Durability::Synced)?;
        Ok(true)
    }

    /// Makes the nightly backup if it is due, and then removes expired backups. The time within the hour is derived
    /// from the deployment's id, which spreads the load. After a downtime, the backup is due at once if the newest one
    /// predates the last nightly time.
    fn back_up_nightly(&self, deployment: &Deployment, instance: &Instance) -> Result<bool, PortError> {
        let Some(since) = instance.started_at.filter(|_| deployment.state == RunState::Started) else {
            return Ok(false);
        };
        let due = self.last_nightly_time(deployment.id);
        let newest = self.0.ports.store.read_deployments()?.backups().list(deployment.id)?.into_iter().next();
        let is_due = match &newest {
            Some(backup) => backup.id.time() < due,
            // A new deployment waits for its first nightly time.
            None => since.min(instance.accepted_at) < due,
        };
        if !is_due {
            return Ok(false);
        }
        match take(self.0, deployment, instance, BackupKind::Nightly) {
            Ok(_) => {
                expire(self.0, deployment)?;
                Ok(true)
            }
            Err(NoBackup::Provision(error)) => Err(error.into()),
            Err(NoBackup::Port(fault)) => Err(fault),
        }
    }

    /// Returns the most recent time at which a nightly backup was due.
    fn last_nightly_time(&self, id: DeploymentId) -> Timestamp {
        let spread = i64::from(u16::try_from(id.as_uuid().as_u128() % 3_600).unwrap_or(0));
        let of_day = i64::from(self.0.settings.backup_hour) * 3_600 + spread;
        let now = self.0.now().as_seconds();
        Timestamp::from_seconds((now - of_day).div_euclid(DAY) * DAY + of_day)
    }
}
