use branchyard_domain::entities::{Email, User};

use crate::wire;

impl From<&Email> for wire::Email {
    fn from(email: &Email) -> Self {
        let Email { address, is_primary, is_verified } = email;
        Self { address: address.clone(), is_primary: *is_primary, is_verified: *is_verified }
    }
}

impl From<&User> for wire::User {
    fn from(user: &User) -> Self {
        let User {
            id: _,
            name,
            display_name,
            bio,
            location,
            website_url,
            profile_pic_url,
            emails,
            password_hash: _,
            is_admin: _,
            suspended_at: _,
            created_at: _,
        } = user;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self {
            username: name.to_string(),
            display_name: text(display_name),
            bio: text(bio),
            location: text(location),
            url: text(website_url),
            profile_picture_url: text(profile_pic_url),
            email_addresses: emails.iter().map(Into::into).collect(),
        }
    }
}
