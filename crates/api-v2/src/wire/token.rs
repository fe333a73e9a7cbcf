use serde::Serialize;
use utoipa::ToSchema;

/// The last use of a token.
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
    /// Up to 30 s behind. Absent until the token is first used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_used_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_used_from: Option<TokenUse>,
    /// The token itself, only in the answer that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
}
