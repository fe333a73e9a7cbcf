//! What can be had, and at what price, before anything is made.

use super::Deployments;
use super::capacity::{CapacityRequest, choose};
use crate::entities::{Catalogue, InstanceSize};
use crate::errors::DeploymentError;

impl Deployments {
    /// What deployments can be made of.
    pub fn catalogue(&self) -> &Catalogue {
        &self.0.settings.catalogue
    }

    /// Whether new instances may start on this server.
    pub fn may_start(&self) -> bool {
        self.0.settings.enabled
    }

    /// The size an instance would have, with its prices. Nothing is set aside, and spending and room are not looked at.
    ///
    /// # Errors
    /// [`DeploymentError::Field`] for what is not in the catalogue, or a volume it does not have in that size.
    pub fn price(&self, wanted: &CapacityRequest<'_>) -> Result<InstanceSize, DeploymentError> {
        choose(&self.0, wanted)
    }
}
