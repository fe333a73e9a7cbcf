use serde::Serialize;
use utoipa::ToSchema;

/// A deployment in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeploymentSummary {
    pub(crate) owner: String,
    pub(crate) name: String,
    pub(crate) state: &'static str,
    pub(crate) cloud: String,
    pub(crate) zone: String,
    pub(crate) cluster_type: &'static str,
    pub(crate) instance_type_name: String,
    pub(crate) volume_type_name: String,
    pub(crate) volume_size_gb: u32,
    pub(crate) replicas: u32,
    /// Absent until the first start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) database_version: Option<String>,
    pub(crate) hourly_cost_usd: f64,
    pub(crate) webpki_cert: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_backup_size_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_backup_time: Option<String>,
    pub(crate) health: &'static str,
}

/// The database of the hub that the deployment was cloned from.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeploymentOrigin {
    pub(crate) owner: String,
    pub(crate) name: String,
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    pub(crate) commit_sha: String,
}

/// A deployment.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Deployment {
    pub(crate) owner: String,
    pub(crate) name: String,
    pub(crate) state: &'static str,
    pub(crate) cloud: String,
    pub(crate) zone: String,
    pub(crate) cluster_type: &'static str,
    pub(crate) instance_type_name: String,
    pub(crate) volume_type_name: String,
    pub(crate) volume_size_gb: u32,
    pub(crate) replicas: u32,
    /// Absent until the first start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) database_version: Option<String>,
    pub(crate) hourly_cost_usd: f64,
    pub(crate) webpki_cert: bool,
    /// Empty until started.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) expose_remotesapi_endpoint: bool,
    pub(crate) expose_mcp: bool,
    pub(crate) expose_stats: bool,
    pub(crate) disable_automatic_dolt_updates: bool,
    pub(crate) caller_role: &'static str,
    pub(crate) created_by: String,
    pub(crate) created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disabled_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disabled_by: Option<String>,
    pub(crate) id: String,
    /// URL for clients. Empty until started.
    pub(crate) url: String,
    /// URL of the instance's own listener. Empty until started.
    pub(crate) direct_url: String,
    pub(crate) protocol: &'static str,
    /// The first database is the default one.
    pub(crate) databases: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<DeploymentOrigin>,
    pub(crate) health: &'static str,
    /// The last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<String>,
}

/// A deployment whose state changes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeploymentState {
    pub(crate) owner: String,
    pub(crate) name: String,
    pub(crate) state: &'static str,
}

/// The requested state of a service.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExposeState {
    pub(crate) owner: String,
    pub(crate) name: String,
    pub(crate) service: &'static str,
    pub(crate) requested: bool,
}

/// A user who was given a role on a deployment.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Collaborator {
    pub(crate) username: String,
    pub(crate) role: &'static str,
    pub(crate) added_at: String,
}

/// A database of a deployment.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeploymentDatabase {
    pub(crate) name: String,
    pub(crate) is_default: bool,
    pub(crate) size_bytes: u64,
    /// Empty until started.
    pub(crate) url: String,
}
