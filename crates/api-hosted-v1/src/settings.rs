//! What the adapter is told of the server.

use branchyard_api_common::segment;
use branchyard_domain::entities::DeploymentLocator;

/// What the adapter is told of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Origin of the API, without a slash at the end.
    pub base_url: String,
    /// Whether deployments are reached through the API's own listener.
    pub gateway: bool,
    /// The address clients are given, with `{owner}`, `{deployment}` and `{port}`, unless it is the gateway's or the direct one.
    pub url_template: Option<String>,
}

impl Settings {
    /// For a server reached at `public_url`.
    pub fn new(public_url: &str) -> Self {
        Self { base_url: public_url.trim_end_matches('/').to_owned(), gateway: true, url_template: None }
    }

    /// The address of a deployment in the API.
    pub(crate) fn deployment(&self, locator: &DeploymentLocator) -> String {
        let (owner, name) = (segment(locator.owner.as_str()), segment(locator.name.as_str()));
        format!("{}{}/deployments/{owner}/{name}", self.base_url, crate::BASE)
    }

    /// The address of an operation.
    pub(crate) fn operation(&self, id: &str) -> String {
        format!("{}{}/operations/{id}", self.base_url, crate::BASE)
    }

    /// What a client of the SQL is given; always ends in a slash.
    pub(crate) fn client_url(&self, locator: &DeploymentLocator, direct: &str, port: u16) -> String {
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
    use super::Settings;
    use branchyard_domain::entities::DeploymentLocator;
    use branchyard_domain::values::{DeploymentName, OwnerName};

    #[test]
    fn the_template_goes_before_the_gateway_and_that_before_the_port() {
        let locator = DeploymentLocator {
            owner: OwnerName::parse("ada").unwrap(),
            name: DeploymentName::parse("gauges").unwrap(),
        };
        let url = |settings: &Settings| settings.client_url(&locator, "http://127.0.0.1:17400/", 17_400);
        let mut settings = Settings::new("https://yard.test/");
        assert_eq!(url(&settings), "https://yard.test/api/v1/deployments/ada/gauges/sql/");
        settings.gateway = false;
        assert_eq!(url(&settings), "http://127.0.0.1:17400/");
        settings.url_template = Some("libsql://{deployment}-{owner}.db.test:{port}".to_owned());
        assert_eq!(url(&settings), "libsql://gauges-ada.db.test:17400/");
    }
}
