//! The URLs of a deployment.

use branchyard_deployments::DeploymentView;
use branchyard_http_common::HostedAddresses;

use crate::page_context::PageContext;

/// The addresses of a started deployment.
pub(super) struct Addresses {
    /// The public URL for clients, ending in a slash.
    pub(super) url: String,
    /// The address of the instance itself.
    pub(super) direct: String,
}

impl Addresses {
    /// Returns `None` if the deployment has not started, or if the server is not configured to serve deployments.
    pub(super) fn of(visit: &PageContext, view: &DeploymentView) -> Option<Self> {
        let addresses = visit.request().app_data::<actix_web::web::Data<HostedAddresses>>()?;
        let url = addresses.of_instance(&view.deployment.locator, &view.primary)?;
        Some(Self { url, direct: HostedAddresses::direct(&view.primary)? })
    }

    /// Returns the URL of one of the databases.
    pub(super) fn of_database(&self, name: &str) -> String {
        format!("{}db/{name}/", self.url)
    }
}
