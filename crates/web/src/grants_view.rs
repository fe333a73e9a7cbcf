//! Applications and what users granted to them, as pages show them.

use branchyard_domain::entities::RegisteredApplication;
use branchyard_domain::usecases::{GrantView, Grants};
use branchyard_domain::values::{Scope, Timestamp};

use crate::format::{self, Markup};

/// Days after the last use at which a grant ends.
pub(crate) const DAYS_UNUSED: i64 = Grants::REFRESH_SECONDS / 86_400;

/// An application.
pub(crate) struct ApplicationItem {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Name of the owner. `None` for the built-in application.
    pub(crate) owner: Option<String>,
    /// Whether the owner is suspended.
    pub(crate) is_suspended: bool,
    pub(crate) redirect_uris: Vec<String>,
    pub(crate) created: Markup,
}

impl ApplicationItem {
    pub(crate) fn of(found: RegisteredApplication, now: Timestamp) -> Self {
        let RegisteredApplication { application, owner_name, is_suspended } = found;
        Self {
            id: application.id.to_string(),
            name: application.name,
            owner: owner_name,
            is_suspended,
            redirect_uris: application.redirect_uris.iter().map(|uri| uri.as_str().to_owned()).collect(),
            created: format::when(application.created_at, now),
        }
    }
}

/// A grant, as a row of a table.
pub(crate) struct GrantItem {
    pub(crate) id: String,
    pub(crate) application: ApplicationItem,
    pub(crate) scope: &'static str,
    pub(crate) granted: Markup,
    pub(crate) expires: Markup,
    /// The last use. `None` before the first use.
    pub(crate) used: Option<Markup>,
    pub(crate) address: String,
    pub(crate) agent: String,
}

impl GrantItem {
    pub(crate) fn of(view: GrantView, now: Timestamp) -> Self {
        let GrantView { grant, application } = view;
        let used = grant.last_use.as_ref().map(|last| format::when(last.at, now));
        let (address, agent) = grant.last_use.map(|last| (last.address, last.user_agent)).unwrap_or_default();
        Self {
            id: grant.id.to_string(),
            application: ApplicationItem::of(application, now),
            scope: scope_label(grant.scope),
            granted: format::when(grant.created_at, now),
            expires: format::when(grant.expires_at, now),
            used,
            address,
            agent,
        }
    }
}

/// Returns the short name of a scope, for tables.
const fn scope_label(scope: Scope) -> &'static str {
    match scope {
        Scope::Read => "Read",
        Scope::ReadWrite => "Read and write",
    }
}

/// Returns what a scope allows, for the user who is asked to consent.
pub(crate) const fn scope_words(scope: Scope) -> &'static str {
    match scope {
        Scope::Read => "Read everything you can read",
        Scope::ReadWrite => {
            "Do everything you can do with the API, which includes creating API tokens and keys that stay valid after you \
             revoke this"
        }
    }
}
