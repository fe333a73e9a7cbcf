use serde::Serialize;
use utoipa::ToSchema;

/// An operation to poll.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OperationRef {
    pub(crate) id: String,
    /// Absolute URL.
    pub(crate) href: String,
}

/// The reason why an operation failed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OperationError {
    /// `EXPIRED`, `FAILED` or `INTERNAL`.
    pub(crate) code: &'static str,
    pub(crate) reason: String,
    pub(crate) detail: String,
}

/// The deployment of an operation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OperationDeployment {
    pub(crate) owner: String,
    pub(crate) name: String,
}

/// The result of an operation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OperationResult {
    pub(crate) backup_id: String,
}

/// Accepted work on a deployment.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Operation {
    pub(crate) id: String,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) status: &'static str,
    /// Always false.
    pub(crate) cancelable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<OperationError>,
    pub(crate) created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) updated_at: Option<String>,
    pub(crate) deployment: OperationDeployment,
    pub(crate) created_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<OperationResult>,
}
