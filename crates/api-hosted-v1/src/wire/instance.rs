use serde::Serialize;
use utoipa::ToSchema;

/// One process of a deployment.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeploymentInstance {
    pub(crate) id: String,
    pub(crate) index: u32,
    pub(crate) is_primary: bool,
    pub(crate) state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    pub(crate) instance_type_name: String,
    pub(crate) volume_type_name: String,
    pub(crate) volume_size_gb: u32,
    pub(crate) hourly_cost_usd: f64,
    pub(crate) port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    pub(crate) restarts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<String>,
}

/// An instance whose state changes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InstanceState {
    pub(crate) id: String,
    pub(crate) state: &'static str,
}
