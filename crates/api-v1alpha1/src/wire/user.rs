use serde::Serialize;

/// An email address of a user.
#[derive(Debug, Serialize)]
pub(crate) struct Email {
    pub(crate) address: String,
    pub(crate) is_primary: bool,
    pub(crate) is_verified: bool,
}

/// The signed-in user.
#[derive(Debug, Serialize)]
pub(crate) struct User {
    pub(crate) username: String,
    pub(crate) display_name: String,
    pub(crate) bio: String,
    pub(crate) location: String,
    pub(crate) url: String,
    pub(crate) profile_picture_url: String,
    pub(crate) email_addresses: Vec<Email>,
}
