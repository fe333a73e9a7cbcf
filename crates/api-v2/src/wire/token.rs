use serde::Serialize;
use utoipa::ToSchema;

/// Where a token was last used from.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenUse {
    pub(crate) address: String,
    pub(crate) user_agent: String,
}

/// An API token of the caller.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Token {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) created_at: String,
    pub(crate) expires_at: String,
    /// Expired tokens stay listed until they are deleted.
    pub(crate) expired: bool,
    /// At most 30 s behind; absent until first used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_used_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_used_from: Option<TokenUse>,
    /// The token itself, in the answer that made it and never again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
}
