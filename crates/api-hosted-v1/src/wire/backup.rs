use serde::Serialize;
use utoipa::ToSchema;

/// The head of a branch when a backup was taken.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BackupHead {
    pub(crate) database: String,
    pub(crate) branch: String,
    pub(crate) commit_sha: String,
}

/// A complete, verified backup.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Backup {
    /// UTC time as `YYYYMMDDTHHMMSS.mmm`.
    pub(crate) id: String,
    pub(crate) databases: Vec<String>,
    pub(crate) size_bytes: u64,
    pub(crate) instance_index: u32,
    pub(crate) created_at: String,
    /// `nightly`, `manual` or `final`.
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<String>,
    pub(crate) heads: Vec<BackupHead>,
}
