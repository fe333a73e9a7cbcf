//! `/admin`: pages for administrators of the server. For everyone else they do not exist.

pub(crate) mod applications;
pub(crate) mod databases;
pub(crate) mod nodes;
pub(crate) mod user;
pub(crate) mod users;

use branchyard_domain::access::ServerAdmin;

use crate::error_page::PageError;
use crate::page_context::{PageContext, PageResult};

/// The sections, as labels and paths.
const SECTIONS: [(&str, &str); 4] = [
    ("Users", "/admin/users"),
    ("Databases", "/admin/databases"),
    ("Applications", "/admin/applications"),
    ("Nodes", "/admin/nodes"),
];

/// `GET /admin`
pub(crate) async fn index(visit: PageContext) -> PageResult {
    administrator(&visit)?;
    visit.redirect("/admin/users")
}

/// Returns the proof that the viewer administers the server. To others the page does not exist.
fn administrator(visit: &PageContext) -> Result<ServerAdmin, PageError> {
    visit.state.services.administration().access(&visit.caller).map_err(|_| PageError::nothing_here())
}

/// Writes to the log what an administrator did.
fn audit(by: &ServerAdmin, action: &'static str, target: &str) {
    let by = by.user().map(|user| user.name.as_str()).unwrap_or_default();
    tracing::info!(target: "audit", by, action, on = target, "an administrator acted");
}
