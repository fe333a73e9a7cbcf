//! The domains that handlers call.

use std::ops::Deref;

use branchyard_deployments::Deployments;
use branchyard_domain::Hub;

/// The hub, and what builds on it. Cheap to clone.
#[derive(Clone)]
pub struct Services {
    hub: Hub,
    deployments: Deployments,
}

impl Services {
    /// Returns the services of one server; the deployments have to be those of the hub.
    pub fn new(hub: Hub, deployments: Deployments) -> Self {
        Self { hub, deployments }
    }

    /// Deployments, and access to them.
    pub fn deployments(&self) -> &Deployments {
        &self.deployments
    }
}

/// Most handlers need the hub alone.
impl Deref for Services {
    type Target = Hub;

    fn deref(&self) -> &Hub {
        &self.hub
    }
}
