//! The domain services that handlers call.

use std::ops::Deref;

use branchyard_deployments::Deployments;
use branchyard_domain::Hub;

/// The hub and the deployments built on it. Cheap to clone.
#[derive(Clone)]
pub struct Services {
    hub: Hub,
    deployments: Deployments,
}

impl Services {
    /// Creates the services of one server. `deployments` must be built on the same `hub`.
    pub fn new(hub: Hub, deployments: Deployments) -> Self {
        Self { hub, deployments }
    }

    /// Returns the deployments.
    pub fn deployments(&self) -> &Deployments {
        &self.deployments
    }
}

/// Dereferences to the hub, which is all that most handlers need.
impl Deref for Services {
    type Target = Hub;

    fn deref(&self) -> &Hub {
        &self.hub
    }
}
