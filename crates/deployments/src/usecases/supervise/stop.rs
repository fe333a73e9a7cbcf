//! Shutdown of a deployment.

use std::time::Duration;

use super::super::backups::{NoBackup, take};
use super::super::{metering, shutdown};
use super::{DRAIN, Next, Stepped, Supervisor};
use crate::entities::{BackupKind, Deployment, Instance, Metered, RunState, Shutdown};
use crate::ports::ProvisionError;
use branchyard_domain::errors::PortError;

/// Seconds after which a failed final backup is tried again.
const AGAIN_SECONDS: i64 = 600;
/// The same if the data was missing.
const NO_DATA_SECONDS: i64 = 5;

impl Supervisor<'_> {
    pub(super) fn bring_down(&self, deployment: &Deployment, instance: &Instance) -> Result<Stepped, PortError> {
        if let Some(handle) = &instance.handle {
            self.0.ports.provisioner.stop(handle, DRAIN)?;
            self.change(instance, |tx, _, instance| {
                metering::close(tx, instance, Metered::Compute, self.0.now())?;
                instance.handle = None;
                instance.draining = false;
                Ok(())
            })?;
            return Ok(Next::Now.into());
        }
        let now = self.0.now();
        let left = instance.shutdown.unwrap_or(Shutdown { final_backup: instance.was_ready, not_before: None });
        if let Some(at) = left.not_before.filter(|at| *at > now) {
            let micros = u64::try_from(at.as_micros() - now.as_micros()).unwrap_or(0);
            return Ok(Next::In(Duration::from_micros(micros)).into());
        }
        if left.final_backup {
            return self.final_backup(deployment, instance);
        }
        self.0.ports.provisioner.remove(instance.id)?;
        self.change(instance, |tx, deployment, instance| {
            shutdown::go(deployment, instance, RunState::Stopped)?;
            metering::close(tx, instance, Metered::Storage, self.0.now())?;
            instance.shutdown = None;
            instance.host = None;
            instance.prepared = false;
            Ok(())
        })?;
        Ok(Next::Never.into())
    }

    /// Makes the final backup. The data is removed only after the backup is verified.
    fn final_backup(&self, deployment: &Deployment, instance: &Instance) -> Result<Stepped, PortError> {
        match take(self.0, deployment, instance, BackupKind::Final) {
            Ok(_) => {
                self.change(instance, |_, _, instance| {
                    instance.shutdown = Some(Shutdown { final_backup: false, not_before: None });
                    Ok(())
                })?;
                Ok(Next::Now.into())
            }
            Err(NoBackup::Port(fault)) => Err(fault),
            Err(NoBackup::Provision(error)) => {
                let is_missing = matches!(error, ProvisionError::NoData { .. });
                let wait = if is_missing { NO_DATA_SECONDS } else { AGAIN_SECONDS };
                let not_before = Some(self.0.now().plus_seconds(wait));
                let said = format!("the final backup failed: {error}");
                self.change(instance, |_, deployment, instance| {
                    // The owner may have discarded the data in the meantime.
                    if instance.shutdown.is_none_or(|left| left.final_backup) {
                        instance.shutdown = Some(Shutdown { final_backup: true, not_before });
                        deployment.last_error = Some(said.clone());
                    }
                    Ok(())
                })?;
                let is_known = deployment.last_error.as_ref() == Some(&said);
                let warning = (!is_known).then(|| format!("instance {}: {said}", instance.id));
                Ok(Stepped { next: Next::Now, warning })
            }
        }
    }
}
