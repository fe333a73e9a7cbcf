//! `/{owner}/{database}/versions`: the versions of a branch, for the slider of the pages that show one.

use actix_web::HttpResponse;
use branchyard_domain::access::Read;
use branchyard_domain::entities::Commit;
use serde_json::json;

use crate::database::{self, DatabaseTab};
use crate::format;
use crate::page_context::{PageContext, PageResult};

/// Number of the newest commits of a branch that are looked at. Those of merged branches are left out.
const NEWEST: usize = 200;

/// `GET /{owner}/{database}/versions?branch=…`: `{"versions": [{"commit", "text"}, …]}`, newest first. Without such a branch there are
/// none.
pub(crate) async fn list(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Tables).await?;
    let branch = visit.parameter("branch").unwrap_or(frame.default_branch);
    let found = visit.read(move |hub| hub.history().versions(&access, &branch, NEWEST)).await?;
    let now = visit.state.services.now();
    let version = |commit: &Commit| {
        let (message, author) = (format::first_line(&commit.message), &commit.author);
        let text = format!("{}, {}: {message}", author.name, format::distance(author.at, now));
        json!({"commit": commit.hash.as_str(), "text": text})
    };
    let versions: Vec<_> = found.iter().map(version).collect();
    Ok(HttpResponse::Ok().json(json!({"versions": versions})))
}
