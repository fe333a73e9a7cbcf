use serde::Serialize;
use utoipa::ToSchema;

/// A size of instances.
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

/// A kind of volumes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StorageOption {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) min_size_gb: u32,
    pub(crate) max_size_gb: u32,
    pub(crate) monthly_cost_usd_per_gb: f64,
}

/// What can be had, as far as it is determined.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeploymentOptions {
    pub(crate) cloud: String,
    pub(crate) zones: Vec<String>,
    /// Once the zone is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) instance_types: Option<Vec<InstanceType>>,
    /// Once the instance type is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) storage_options: Option<Vec<StorageOption>>,
}
