//! How clients reach a deployment.

use branchyard_deployments::DeploymentView;
use branchyard_http_common::HostedAddresses;

use crate::page_context::PageContext;

/// The addresses of a deployment that has started.
pub(super) struct Addresses {
    /// What clients are given, ending in a slash.
    pub(super) url: String,
    /// The instance's own address.
    pub(super) direct: String,
}

impl Addresses {
    /// `None` until it has started, and where the server does not say where deployments are.
    pub(super) fn of(visit: &PageContext, view: &DeploymentView) -> Option<Self> {
        let addresses = visit.request().app_data::<actix_web::web::Data<HostedAddresses>>()?;
        let url = addresses.of_instance(&view.deployment.locator, &view.primary)?;
        Some(Self { url, direct: HostedAddresses::direct(&view.primary)? })
    }

    /// The address of one of its databases.
    pub(super) fn of_database(&self, name: &str) -> String {
        format!("{}db/{name}/", self.url)
    }
}
