use branchyard_domain::entities::{Database, DatabaseLocator, Email, Mirror, Role, User, UserKey, Visibility};
use branchyard_domain::usecases::DatabaseView;
use branchyard_http_common::rfc3339;

use crate::wire;

impl From<&Email> for wire::EmailAddress {
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
        Self {
            username: name.to_string(),
            display_name: display_name.clone(),
            bio: bio.clone(),
            location: location.clone(),
            website_url: website_url.clone(),
            profile_pic_url: profile_pic_url.clone(),
            email_addresses: emails.iter().map(Into::into).collect(),
        }
    }
}

impl From<&UserKey> for wire::UserKey {
    fn from(key: &UserKey) -> Self {
        let UserKey { id, user_id: _, name, public_key, kid, created_at, last_used_at } = key;
        Self {
            id: id.to_string(),
            name: name.clone(),
            kid: kid.to_string(),
            public_key: public_key.to_string(),
            created_at: rfc3339(*created_at),
            last_used_at: last_used_at.map(rfc3339),
        }
    }
}

impl From<&Mirror> for wire::Mirror {
    fn from(mirror: &Mirror) -> Self {
        Self {
            url: mirror.url.clone(),
            interval_seconds: mirror.interval_seconds,
            public_key: mirror.public_key.to_string(),
            kid: mirror.public_key.id().to_string(),
            last_sync_at: mirror.last_sync_at.map(rfc3339),
            last_error: mirror.last_error.clone(),
        }
    }
}

/// Converts a locator to the owner and name of a database.
pub(crate) fn database_ref(locator: &DatabaseLocator) -> wire::DatabaseRef {
    let DatabaseLocator { owner, name } = locator;
    wire::DatabaseRef { owner: owner.to_string(), name: name.to_string() }
}

impl From<&DatabaseView> for wire::Database {
    fn from(view: &DatabaseView) -> Self {
        let DatabaseView { database, role, fork_network_count, parent, network_root } = view;
        let Database {
            id: _,
            owner_id: _,
            locator,
            description,
            visibility,
            default_branch,
            anonymous_sql,
            is_mirror: _,
            parent_id: _,
            network_id: _,
            created_at,
            last_write_at,
            size_bytes,
            live_bytes: _,
            engine_format: _,
            star_count,
            version: _,
            generation: _,
            quarantined_at: _,
            deleted_at: _,
        } = database;
        let DatabaseLocator { owner, name } = locator;
        Self {
            owner: owner.to_string(),
            name: name.to_string(),
            description: description.clone(),
            visibility: match visibility {
                Visibility::Public => wire::Visibility::Public,
                Visibility::Private => wire::Visibility::Private,
            },
            fork_network_count: *fork_network_count,
            star_count: *star_count,
            size_bytes: *size_bytes,
            garbage_bytes: (*role == Role::Admin).then(|| database.garbage_bytes()),
            anonymous_sql: *anonymous_sql,
            last_write_at: last_write_at.map(rfc3339),
            parent: parent.as_ref().map(database_ref),
            network_root: network_root.as_ref().map(database_ref),
            default_branch: default_branch.to_string(),
            created_at: rfc3339(*created_at),
            viewer_role: (*role).into(),
        }
    }
}
