//! What open pages of deployments follow.

use super::Deployments;
use crate::ports::{DeploymentWatchKey, DeploymentWatchMarks};
use branchyard_domain::errors::PortError;

impl Deployments {
    /// Returns a mark for each of `keys` that exists, which changes with it. Checks no permissions: a mark is compared, and never shown.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn watch_marks(&self, keys: &[DeploymentWatchKey]) -> Result<DeploymentWatchMarks, PortError> {
        Ok(self.0.ports.store.deployment_marks(keys)?)
    }
}
