//! Backups: listing, requesting, removing and downloading them, and the procedure that takes one.

use super::DeploymentsInner;
use super::{Deployments, live, operations};
use crate::access::{DeploymentAccess, DeploymentLevel, Manage};
use crate::entities::{Backup, BackupKind, Deployment, DeploymentOperation, DeploymentWork, Instance, RunState};
use crate::errors::DeploymentError;
use crate::ports::DeploymentTransaction;
use crate::ports::{BackupFile, ProvisionError};
use crate::values::{BackupId, ServedName};
use branchyard_domain::errors::PortError;
use branchyard_domain::ports::{Durability, MetadataError, ReadSeek, WriteKeys};
use branchyard_domain::usecases::IdempotencyRecord;

/// A database of a backup, opened for reading.
pub struct BackupFileBytes {
    /// SHA-256 of the file, in lower-case hexadecimal.
    pub sha256: String,
    /// Size of the file in bytes.
    pub size_bytes: u64,
    /// Content of the file.
    pub bytes: Box<dyn ReadSeek>,
}

fn absent(id: &str) -> DeploymentError {
    DeploymentError::Absent { what: "backup", name: id.to_owned() }
}

fn named(tx: &mut dyn DeploymentTransaction, deployment: &Deployment, id: &str) -> Result<Backup, DeploymentError> {
    let parsed = BackupId::parse(id).map_err(|_| absent(id))?;
    tx.backups().get(deployment.id, parsed)?.ok_or_else(|| absent(id))
}

impl Deployments {
    /// Returns the complete and verified backups, newest first.
    ///
    /// # Errors
    /// [`DeploymentError::Port`] if the store fails.
    pub fn backups<L: DeploymentLevel>(&self, access: &DeploymentAccess<L>) -> Result<Vec<Backup>, DeploymentError> {
        let mut tx = self.0.ports.store.read_deployments()?;
        let deployment = live(tx.as_mut(), access)?;
        Ok(tx.backups().list(deployment.id)?)
    }

    /// Accepts the creation of a backup.
    ///
    /// # Errors
    /// [`DeploymentError::Unprocessable`] unless the deployment is started.
    pub fn back_up(
        &self,
        access: &DeploymentAccess<Manage>,
        once: Option<&IdempotencyRecord<'_, DeploymentOperation>>,
    ) -> Result<DeploymentOperation, DeploymentError> {
        let now = self.0.now();
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        let deployment = live(tx.as_mut(), access)?;
        if deployment.state != RunState::Started {
            let text = format!("{} is not started; only a started deployment is backed up", deployment.locator);
            return Err(DeploymentError::Unprocessable(text));
        }
        let work = DeploymentWork::CreateBackup;
        let operation = operations::accept(&self.0, tx.as_mut(), &deployment, access.who(), work, now)?;
        self.0.hub.keep_answer(tx.as_mut(), once, &operation, now)?;
        tx.commit(Durability::Synced)?;
        self.0.wake.one();
        Ok(operation)
    }

    /// Removes a backup and returns its last state.
    ///
    /// # Errors
    /// - [`DeploymentError::Absent`] if there is no such backup.
    /// - [`DeploymentError::Conflict`] if it is the only backup of a deployment that does not run.
    pub fn remove_backup(&self, access: &DeploymentAccess<Manage>, id: &str) -> Result<Backup, DeploymentError> {
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        let deployment = live(tx.as_mut(), access)?;
        let backup = named(tx.as_mut(), &deployment, id)?;
        let is_needed = deployment.state != RunState::Started || running_from(tx.as_mut(), &deployment, backup.id)?;
        if is_needed && tx.backups().list(deployment.id)?.len() == 1 {
            let text = "this is the only backup of a deployment that is not running; delete the deployment instead";
            return Err(DeploymentError::Conflict(text.to_owned()));
        }
        tx.backups().remove(deployment.id, backup.id)?;
        tx.commit(Durability::Synced)?;
        self.0.ports.backup_files.remove_backup(deployment.id, backup.id)?;
        Ok(backup)
    }

    /// Opens a database of a backup.
    ///
    /// # Errors
    /// [`DeploymentError::Absent`] if the backup or the database does not exist.
    pub fn read_backup(
        &self,
        access: &DeploymentAccess<Manage>,
        id: &str,
        database: &str,
    ) -> Result<BackupFileBytes, DeploymentError> {
        let mut tx = self.0.ports.store.read_deployments()?;
        let deployment = live(tx.as_mut(), access)?;
        let backup = named(tx.as_mut(), &deployment, id)?;
        let missing = || DeploymentError::Absent { what: "database", name: database.to_owned() };
        let name = ServedName::parse(database).map_err(|_| missing())?;
        let found = backup.databases.into_iter().find(|copied| copied.name.key() == name.key()).ok_or_else(missing)?;
        let file = BackupFile { deployment: deployment.id, backup: backup.id, database: found.name };
        let bytes = self.0.ports.backup_files.open_backup(&file)?;
        Ok(BackupFileBytes { sha256: found.sha256, size_bytes: found.size_bytes, bytes })
    }
}

/// Returns `true` if an instance that is starting still needs this backup.
fn running_from(
    tx: &mut dyn DeploymentTransaction,
    deployment: &Deployment,
    backup: BackupId,
) -> Result<bool, PortError> {
    use crate::ports::DatabaseSeed;
    let instance = super::primary(tx, deployment.id)?;
    Ok(instance.seeds.iter().any(|seed| matches!(seed, DatabaseSeed::Backup { file, .. } if file.backup == backup)))
}

/// The reason why no backup was made.
pub(super) enum NoBackup {
    /// The provisioner could not make the copies.
    Provision(ProvisionError),
    /// A port failed.
    Port(PortError),
}

impl From<MetadataError> for NoBackup {
    fn from(error: MetadataError) -> Self {
        Self::Port(error.into())
    }
}

/// Takes a backup now. The backup is listed when the function returns.
pub(super) fn take(
    inner: &DeploymentsInner,
    deployment: &Deployment,
    instance: &Instance,
    kind: BackupKind,
) -> Result<Backup, NoBackup> {
    let now = inner.now();
    let mut id = BackupId::at(now);
    while inner.ports.store.read_deployments()?.backups().get(deployment.id, id)?.is_some() {
        id = id.next();
    }
    let spec = instance.spec(deployment);
    let databases = inner.ports.provisioner.snapshot(&spec, id).map_err(NoBackup::Provision)?;
    let kept = inner.settings.backup_retention_days.saturating_mul(86_400);
    let backup = Backup { deployment_id: deployment.id, id, kind, databases, expires_at: now.plus_seconds(kept) };
    let recorded = record(inner, &backup);
    if recorded.is_err() {
        // The backup is not listed. If removing its files fails too, they are only garbage.
        let _ = inner.ports.backup_files.remove_backup(deployment.id, id);
    }
    recorded?;
    Ok(backup)
}

fn record(inner: &DeploymentsInner, backup: &Backup) -> Result<(), MetadataError> {
    let mut tx = inner.ports.store.write_deployments(&WriteKeys::server())?;
    tx.backups().add(backup)?;
    tx.commit(Durability::Synced)
}

/// Removes expired backups, except the newest one of a deployment that is not started.
pub(super) fn expire(inner: &DeploymentsInner, deployment: &Deployment) -> Result<(), PortError> {
    let now = inner.now();
    let backups = inner.ports.store.read_deployments()?.backups().list(deployment.id)?;
    for (place, backup) in backups.iter().enumerate() {
        let newest_of_stopped = place == 0 && deployment.state != RunState::Started;
        if backup.expires_at <= now && !newest_of_stopped {
            let mut tx = inner.ports.store.write_deployments(&WriteKeys::server())?;
            tx.backups().remove(deployment.id, backup.id)?;
            tx.commit(Durability::Synced)?;
            inner.ports.backup_files.remove_backup(deployment.id, backup.id)?;
        }
    }
    Ok(())
}
