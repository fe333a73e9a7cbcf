use serde::Serialize;
use utoipa::ToSchema;

/// An email address of a user.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EmailAddress {
    pub(crate) address: String,
    pub(crate) is_verified: bool,
    pub(crate) is_primary: bool,
}

/// The user that a token belongs to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct User {
    pub(crate) username: String,
    /// May be empty.
    pub(crate) display_name: String,
    /// May be empty.
    pub(crate) company: &'static str,
    pub(crate) email_addresses: Vec<EmailAddress>,
}
