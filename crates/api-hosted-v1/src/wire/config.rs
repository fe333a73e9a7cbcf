use serde::Serialize;
use utoipa::ToSchema;

/// A setting of a deployment.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeploymentSetting {
    pub(crate) key: &'static str,
    pub(crate) value: String,
    pub(crate) default: &'static str,
    pub(crate) is_overridden: bool,
    /// Takes effect at the next start of the instance.
    pub(crate) pending_restart: bool,
    pub(crate) description: &'static str,
}

/// All settings, in a fixed order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeploymentConfig {
    pub(crate) settings: Vec<DeploymentSetting>,
}

/// The running engine version and the available ones.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DatabaseVersions {
    /// Empty until the first start.
    pub(crate) current: String,
    pub(crate) available: Vec<String>,
}

/// A weekly period in which healthy instances may be restarted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ServiceWindow {
    pub(crate) id: &'static str,
    pub(crate) day_of_week: &'static str,
    pub(crate) start_hour_utc: u8,
    pub(crate) end_hour_utc: u8,
    pub(crate) is_default: bool,
}
