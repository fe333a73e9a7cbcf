use serde::Serialize;
use utoipa::ToSchema;

/// The public half of a key with which a DoltLite client of the caller signs its requests.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UserKey {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The id by which clients name the key.
    pub(crate) kid: String,
    pub(crate) public_key: String,
    pub(crate) created_at: String,
    /// Up to 30 s behind. Absent until the key is first used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_used_at: Option<String>,
}
