use serde::Serialize;
use utoipa::ToSchema;

use super::{Role, Visibility};

/// A reference to a database. It will always have exactly these keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DatabaseRef {
    pub(crate) owner: String,
    pub(crate) name: String,
}

/// A versioned database.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Database {
    pub(crate) owner: String,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    pub(crate) visibility: Visibility,
    /// Number of forks in the whole network, direct and indirect.
    pub(crate) fork_network_count: u64,
    pub(crate) star_count: i64,
    /// Size of the file in bytes, with what pull requests of others brought and what no ref reaches any more.
    pub(crate) size_bytes: i64,
    /// Estimate of what a purge would free, in bytes. Administrators of the database only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) garbage_bytes: Option<i64>,
    /// Whether callers without a credential may run SQL. They may not if the server requires a credential for SQL on all databases.
    pub(crate) anonymous_sql: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_write_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<DatabaseRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) network_root: Option<DatabaseRef>,
    pub(crate) default_branch: String,
    pub(crate) created_at: String,
    /// The caller's role.
    pub(crate) viewer_role: Role,
}
