//! Addresses of deployments, in the hosted API and for SQL clients.

use branchyard_deployments::entities::{DeploymentLocator, Instance};

use crate::urls::segment;

/// Builds the addresses of deployments. Kept in the application's data for the hosted API and the pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedAddresses {
    /// Origin of the API, without a trailing slash.
    pub base_url: String,
    /// Whether deployments are reached through the API's listener (the gateway).
    pub gateway: bool,
    /// Template of the address for SQL clients, with `{owner}`, `{deployment}` and `{port}`. Without a template, clients get the
    /// gateway's address or the direct one.
    pub url_template: Option<String>,
}

impl HostedAddresses {
    /// The path prefix of the hosted API.
    pub const BASE: &'static str = "/api/v1";

    /// Creates the addresses of a server reached at `public_url`, with the gateway enabled and no template.
    pub fn new(public_url: &str) -> Self {
        Self { base_url: public_url.trim_end_matches('/').to_owned(), gateway: true, url_template: None }
    }

    /// Returns the API address of a deployment.
    pub fn deployment(&self, locator: &DeploymentLocator) -> String {
        let (owner, name) = (segment(locator.owner.as_str()), segment(locator.name.as_str()));
        format!("{}{}/deployments/{owner}/{name}", self.base_url, Self::BASE)
    }

    /// Returns the API address of an operation.
    pub fn operation(&self, id: &str) -> String {
        format!("{}{}/operations/{id}", self.base_url, Self::BASE)
    }

    /// Returns the address of an instance for SQL clients, ending in a slash; `None` until the instance has started.
    pub fn of_instance(&self, locator: &DeploymentLocator, instance: &Instance) -> Option<String> {
        let direct = Self::direct(instance)?;
        Some(self.client_url(locator, &direct, instance.port))
    }

    /// Returns the instance's own address, ending in a slash; `None` until the instance has started.
    pub fn direct(instance: &Instance) -> Option<String> {
        let host = instance.host.as_ref()?;
        Some(format!("http://{host}:{}/", instance.port))
    }

    /// Returns the address for SQL clients, ending in a slash. The template takes precedence over the gateway, and the gateway over
    /// the direct address.
    fn client_url(&self, locator: &DeploymentLocator, direct: &str, port: u16) -> String {
        if let Some(template) = &self.url_template {
            let filled = template
                .replace("{owner}", &segment(locator.owner.as_str()))
                .replace("{deployment}", &segment(locator.name.as_str()))
                .replace("{port}", &port.to_string());
            return if filled.ends_with('/') { filled } else { format!("{filled}/") };
        }
        match self.gateway {
            true => format!("{}/sql/", self.deployment(locator)),
            false => direct.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HostedAddresses;
    use branchyard_deployments::entities::DeploymentLocator;
    use branchyard_deployments::values::DeploymentName;
    use branchyard_domain::values::OwnerName;

    #[test]
    fn the_template_goes_before_the_gateway_and_that_before_the_port() {
        let locator = DeploymentLocator {
            owner: OwnerName::parse("ada").unwrap(),
            name: DeploymentName::parse("gauges").unwrap(),
        };
        let url = |settings: &HostedAddresses| settings.client_url(&locator, "http://127.0.0.1:17400/", 17_400);
        let mut settings = HostedAddresses::new("https://yard.test/");
        assert_eq!(url(&settings), "https://yard.test/api/v1/deployments/ada/gauges/sql/");
        settings.gateway = false;
        assert_eq!(url(&settings), "http://127.0.0.1:17400/");
        settings.url_template = Some("libsql://{deployment}-{owner}.db.test:{port}".to_owned());
        assert_eq!(url(&settings), "libsql://gauges-ada.db.test:17400/");
    }
}
