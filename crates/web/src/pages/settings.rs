//! `/settings/…`: the account of the signed-in user.

pub(super) mod applications;
pub(super) mod confirm;
pub(super) mod invitations;
pub(super) mod keys;
pub(super) mod password;
pub(super) mod profile;
pub(super) mod sessions;
pub(super) mod tokens;
pub(super) mod usage;

use crate::page_context::{PageContext, PageResult};

/// The navigation between the sections: labels and paths.
type SettingsNav = Vec<(&'static str, &'static str)>;

fn sections(visit: &PageContext) -> SettingsNav {
    let mut sections = vec![
        ("Profile", "/settings/profile"),
        ("Password", "/settings/password"),
        ("Sessions", "/settings/sessions"),
        ("Tokens", "/settings/tokens"),
        ("Keys", "/settings/keys"),
        ("Applications", "/settings/applications"),
        ("Usage", "/settings/usage"),
    ];
    if visit.caller.user().is_some_and(|user| user.is_admin) {
        sections.push(("Invitations", "/settings/invitations"));
    }
    sections
}

/// `GET /settings`
pub(super) async fn index(visit: PageContext) -> PageResult {
    visit.user()?;
    visit.redirect("/settings/profile")
}
