//! The catalog and price estimates.

use super::Deployments;
use super::capacity::{CapacityRequest, choose};
use crate::entities::{Catalogue, InstanceSize};
use crate::errors::DeploymentError;

impl Deployments {
    /// Returns the catalog.
    pub fn catalogue(&self) -> &Catalogue {
        &self.0.settings.catalogue
    }

    /// Returns `true` if this server may start new instances.
    pub fn may_start(&self) -> bool {
        self.0.settings.enabled
    }

    /// Returns the size that an instance would have, with its prices. Reserves nothing, and checks neither spending
    /// limits nor capacity.
    ///
    /// # Errors
    /// [`DeploymentError::Field`] if an entry is not in the catalog, or if the storage option does not have that
    /// volume size.
    pub fn price(&self, wanted: &CapacityRequest<'_>) -> Result<InstanceSize, DeploymentError> {
        choose(&self.0, wanted)
    }
}
