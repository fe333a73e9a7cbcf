use serde::Serialize;
use utoipa::ToSchema;

/// A size of an instance.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InstanceType {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) cpus: u32,
    pub(crate) memory_gb: u32,
    pub(crate) description: String,
    pub(crate) hourly_cost_usd: f64,
    pub(crate) max_replicas: u32,
}

/// A type of volume.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StorageOption {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) min_size_gb: u32,
    pub(crate) max_size_gb: u32,
    pub(crate) monthly_cost_usd_per_gb: f64,
}

/// The available options for the choices made so far.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeploymentOptions {
    pub(crate) cloud: String,
    pub(crate) zones: Vec<String>,
    /// Present if `zone` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) instance_types: Option<Vec<InstanceType>>,
    /// Present if `instance_type_id` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) storage_options: Option<Vec<StorageOption>>,
}
