//! Bodies as the document describes them; handlers read them field by field, so that all faults are named at once.
#![expect(dead_code, reason = "described, not built")]

use std::collections::BTreeMap;

use utoipa::ToSchema;

/// A hub database to begin with.
#[derive(Debug, ToSchema)]
pub(crate) struct FromDatabase {
    pub(crate) owner: String,
    pub(crate) name: String,
    /// A branch, tag or commit; the default branch when not said.
    #[schema(rename = "ref")]
    pub(crate) reference: Option<String>,
}

/// A deployment to be.
#[derive(Debug, ToSchema)]
pub(crate) struct CreateDeploymentRequest {
    pub(crate) owner: String,
    #[schema(pattern = "^[-a-zA-Z0-9_]{3,32}$")]
    pub(crate) name: String,
    pub(crate) cloud: String,
    pub(crate) zone: String,
    pub(crate) instance_type_id: String,
    pub(crate) volume_type_id: String,
    #[schema(minimum = 1, maximum = 2147483647)]
    pub(crate) volume_size_gb: u32,
    /// `dolt`; `doltgres` and `mysql_with_dolt_replicas` are known and refused.
    pub(crate) cluster_type: Option<String>,
    pub(crate) replicas: Option<u32>,
    pub(crate) webpki_cert: Option<bool>,
    pub(crate) expose_remotesapi_endpoint: Option<bool>,
    pub(crate) expose_mcp: Option<bool>,
    pub(crate) expose_stats: Option<bool>,
    pub(crate) from_database: Option<FromDatabase>,
    /// Name of the first database.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    pub(crate) database: Option<String>,
}

/// Changes to a deployment.
#[derive(Debug, ToSchema)]
pub(crate) struct UpdateDeploymentRequest {
    pub(crate) disable_automatic_dolt_updates: bool,
}

/// An instance to be: a stopped deployment starts again.
#[derive(Debug, ToSchema)]
pub(crate) struct CreateInstanceRequest {
    pub(crate) instance_type_id: String,
    pub(crate) volume_type_id: String,
    #[schema(minimum = 1, maximum = 2147483647)]
    pub(crate) volume_size_gb: u32,
    /// The backup to begin with; empty when not said.
    #[schema(pattern = r"^\d{8}T\d{6}\.\d{3}$")]
    pub(crate) backup_id: Option<String>,
}

/// A change of the primary.
#[derive(Debug, ToSchema)]
pub(crate) struct ChangePrimaryRequest {
    #[schema(format = "uuid")]
    pub(crate) current_primary_id: String,
}

/// Exactly one of the services.
#[derive(Debug, ToSchema)]
pub(crate) struct ExposeServiceRequest {
    pub(crate) remotesapi: Option<bool>,
    pub(crate) mcp: Option<bool>,
}

/// Settings to change; null takes the default again, keys left out stay.
#[derive(Debug, ToSchema)]
pub(crate) struct UpdateConfigRequest {
    pub(crate) overrides: BTreeMap<String, Option<String>>,
}

/// The engine to run.
#[derive(Debug, ToSchema)]
pub(crate) struct UpdateVersionRequest {
    pub(crate) version: String,
}

/// A role.
#[derive(Debug, ToSchema)]
pub(crate) struct PutCollaboratorRequest {
    /// `reader`, `reader_and_pulls`, `writer` or `admin`.
    pub(crate) role: String,
}

/// A database to be.
#[derive(Debug, ToSchema)]
pub(crate) struct AddDatabaseRequest {
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    pub(crate) name: String,
    pub(crate) from_database: Option<FromDatabase>,
}

/// A time in the week.
#[derive(Debug, ToSchema)]
pub(crate) struct ServiceWindowRequest {
    pub(crate) day_of_week: String,
    #[schema(minimum = 0, maximum = 22)]
    pub(crate) start_hour_utc: u8,
    #[schema(minimum = 1, maximum = 23)]
    pub(crate) end_hour_utc: u8,
}

/// Own service windows, instead of the default one.
#[derive(Debug, ToSchema)]
pub(crate) struct UpdateServiceWindowsRequest {
    #[schema(max_items = 7)]
    pub(crate) windows: Vec<ServiceWindowRequest>,
}
