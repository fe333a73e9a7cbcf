use serde::Serialize;
use utoipa::ToSchema;

/// How a database follows a database of another server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Mirror {
    /// The address of the source.
    pub(crate) url: String,
    /// Seconds between two syncs. 0 for one sync only, after which the database is an ordinary one.
    pub(crate) interval_seconds: i64,
    /// The key with which requests to the source are signed if it does not serve them without. Register it there for a private source.
    pub(crate) public_key: String,
    /// The id of the key.
    pub(crate) kid: String,
    /// Absent until the first sync has succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_sync_at: Option<String>,
    /// Why the last sync failed, or what it left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<String>,
}
