//! Settings of a deployment.

use super::{Deployments, DeploymentsInner, live, primary, update};
use crate::access::{DeploymentAccess, DeploymentLevel, Manage};
use crate::entities::{Deployment, Instance};
use crate::errors::DeploymentError;
use crate::ports::InstanceHandle;
use crate::values::{Applied, DeploymentId, Setting};
use branchyard_domain::errors::PortError;
use branchyard_domain::ports::{Durability, WriteKeys};

/// A setting with its current value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingView {
    /// The setting.
    pub setting: Setting,
    /// The value in force.
    pub value: String,
    /// Whether the value was set explicitly.
    pub is_overridden: bool,
    /// Whether the value takes effect only at the next start.
    pub pending_restart: bool,
}

/// A check that the settings are in the state that the caller last saw.
pub type SettingsCheck<'a> = &'a dyn Fn(&[SettingView]) -> bool;

fn views(deployment: &Deployment, instance: &Instance) -> Vec<SettingView> {
    let settings = &deployment.settings;
    let one = |setting: &Setting| SettingView {
        setting: *setting,
        value: settings.get(*setting).to_owned(),
        is_overridden: settings.is_overridden(*setting),
        pending_restart: setting.applied() == Applied::Restart
            && instance.handle.is_some()
            && instance.started_with.get(*setting) != settings.get(*setting),
    };
    Setting::ALL.iter().map(one).collect()
}

impl Deployments {
    /// Returns all settings, in the order of the table.
    ///
    /// # Errors
    /// [`DeploymentError::Port`] if the store fails.
    pub fn settings<L: DeploymentLevel>(
        &self,
        access: &DeploymentAccess<L>,
    ) -> Result<Vec<SettingView>, DeploymentError> {
        let mut tx = self.0.ports.store.read_deployments()?;
        let deployment = live(tx.as_mut(), access)?;
        let instance = primary(tx.as_mut(), deployment.id)?;
        Ok(views(&deployment, &instance))
    }

    /// Changes settings, all or none, and applies them to the running process. `None` restores the default.
    ///
    /// # Errors
    /// - [`DeploymentError::Settings`] listing each setting that does not exist or cannot have its value.
    /// - [`DeploymentError::Changed`] if `expected` does not accept the current settings.
    pub fn set(
        &self,
        access: &DeploymentAccess<Manage>,
        overrides: Vec<(String, Option<String>)>,
        expected: Option<SettingsCheck<'_>>,
    ) -> Result<Vec<SettingView>, DeploymentError> {
        let mut tx = self.0.ports.store.write_deployments(&WriteKeys::server())?;
        let mut deployment = live(tx.as_mut(), access)?;
        let instance = primary(tx.as_mut(), deployment.id)?;
        let before = views(&deployment, &instance);
        let mut wrong = Vec::new();
        for (key, value) in overrides {
            match Setting::by_key(&key) {
                None => wrong.push((key, "is no setting".to_owned())),
                Some(setting) => {
                    if let Err(why) = deployment.settings.set(setting, value) {
                        wrong.push((key, why.0));
                    }
                }
            }
        }
        if !wrong.is_empty() {
            return Err(DeploymentError::Settings(wrong));
        }
        if let Some(matches) = expected
            && !matches(&before)
        {
            return Err(DeploymentError::Changed);
        }
        update(tx.as_mut(), &mut deployment)?;
        tx.commit(Durability::Synced)?;
        if let Some(handle) = &instance.handle {
            // If the process cannot be reached now, the supervisor applies the settings later.
            let _ = apply_settings(&self.0, deployment.id, handle);
        }
        Ok(views(&deployment, &instance))
    }
}

/// Applies the settings of a deployment to its process. Several callers may do so at once. The settings carry the version of
/// the deployment as their revision, so that a call that read older settings and arrives later changes nothing.
pub(super) fn apply_settings(
    inner: &DeploymentsInner,
    deployment: DeploymentId,
    handle: &InstanceHandle,
) -> Result<(), PortError> {
    let stored = inner.ports.store.read_deployments()?.deployments().get(deployment)?;
    if let Some(stored) = stored {
        inner.ports.provisioner.apply(handle, &stored.settings, stored.version)?;
    }
    Ok(())
}
