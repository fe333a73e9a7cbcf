//! `/repositories/{owner}/{database}` and what is below it: the addresses that DoltHub's command-line client prints and opens
//! (v2 §7). They redirect to the pages of the database.
//!
//! No database is looked up here. The redirection of a hidden database is thus that of a missing one, and the page decides what the
//! caller sees.

use branchyard_http_common::segment;

use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// `GET /repositories/{owner}/{database}`
pub(crate) async fn database(visit: PageContext) -> PageResult {
    forward(&visit, "")
}

/// `GET /repositories/{owner}/{database}/pulls`
pub(crate) async fn pulls(visit: PageContext) -> PageResult {
    forward(&visit, "/pulls")
}

/// `GET /repositories/{owner}/{database}/pulls/{number}`
pub(crate) async fn pull(visit: PageContext) -> PageResult {
    let number = segment(&visit.segment("number"));
    forward(&visit, &format!("/pulls/{number}"))
}

/// `GET /repositories/{owner}/{database}/data/{branch}`: the tables at a branch, whose slashes are sent as `%2F`.
pub(crate) async fn data(visit: PageContext) -> PageResult {
    let branch = visit.segment("branch");
    let at_branch = paths::with_query(&path(&visit), &[("ref", &branch)]);
    visit.redirect(&at_branch)
}

/// `GET /repositories/{owner}/{database}/releases`
pub(crate) async fn releases(visit: PageContext) -> PageResult {
    forward(&visit, "/releases")
}

/// Returns the path of the database's page, with the names as the request spells them.
fn path(visit: &PageContext) -> String {
    format!("/{}/{}", segment(&visit.segment("owner")), segment(&visit.segment("database")))
}

/// Redirects to a page below that of the database. The query stays.
fn forward(visit: &PageContext, below: &str) -> PageResult {
    let query = visit.request().uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    visit.redirect(&format!("{}{below}{query}", path(visit)))
}
