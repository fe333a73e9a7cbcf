use serde::Serialize;
use utoipa::ToSchema;

/// An email address of a user.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EmailAddress {
    pub(crate) address: String,
    pub(crate) is_primary: bool,
    pub(crate) is_verified: bool,
}

/// A user.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct User {
    pub(crate) username: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bio: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) location: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) website_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profile_pic_url: Option<String>,
    pub(crate) email_addresses: Vec<EmailAddress>,
}
