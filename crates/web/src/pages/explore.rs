//! `/explore`: every database the viewer may see, and a search among them.

use askama::Template;
use branchyard_domain::entities::Visibility;
use branchyard_domain::ports::DatabaseFilter;
use branchyard_domain::usecases::DatabaseView;
use branchyard_domain::values::Timestamp;

use crate::format::{self, Markup};
use crate::layout::Shell;
use crate::paths;
use crate::visit::{Answer, Visit};

const PAGE: usize = 30;

/// A database in a list.
pub(crate) struct Item {
    pub(crate) owner: String,
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) description: Option<String>,
    pub(crate) is_private: bool,
    pub(crate) is_fork: bool,
    pub(crate) size: String,
    pub(crate) written: Option<Markup>,
}

/// Databases as lists show them.
pub(crate) fn items(views: &[DatabaseView], now: Timestamp) -> Vec<Item> {
    views
        .iter()
        .map(|view| {
            let database = &view.database;
            Item {
                owner: database.locator.owner.to_string(),
                name: database.locator.name.to_string(),
                path: paths::database(&database.locator),
                description: database.description.clone(),
                is_private: database.visibility == Visibility::Private,
                is_fork: database.parent_id.is_some(),
                size: format::size(database.size_bytes),
                written: database.last_write_at.map(|at| format::when(at, now)),
            }
        })
        .collect()
}

#[derive(Template)]
#[template(path = "explore.html")]
struct ExplorePage {
    shell: Shell,
    databases: Vec<Item>,
    next: Option<String>,
}

/// `GET /explore?q=…`
pub(crate) async fn show(visit: Visit) -> Answer {
    let (caller, search) = (visit.caller.clone(), visit.parameter("q").unwrap_or_default());
    let filter =
        DatabaseFilter { contains: Some(search.clone()).filter(|q| !q.is_empty()), ..DatabaseFilter::default() };
    let after = visit.parameter("after").unwrap_or_default().to_ascii_lowercase();
    let mut found =
        visit.read(move |hub| hub.databases().list(&caller, &filter, after.split_once('/'), PAGE + 1)).await?;
    let more = found.len() > PAGE;
    found.truncate(PAGE);
    let last = found.last().filter(|_| more).map(|view| view.database.locator.to_string());
    let next = last.map(|last| paths::with_query("/explore", &[("q", &search), ("after", &last)]));
    let databases = items(&found, visit.state.hub.now());
    visit.page(|shell| ExplorePage { shell: shell.searching(search), databases, next })
}
