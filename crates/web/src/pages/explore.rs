//! `/explore`: lists and searches the databases the viewer can see.

use askama::Template;
use branchyard_domain::entities::Visibility;
use branchyard_domain::ports::{DatabaseFilter, Ranking};
use branchyard_domain::usecases::DatabaseView;
use branchyard_domain::values::{DatabaseId, Timestamp};
use branchyard_http_common::{bound, open_token, token};

use crate::format::{self, Markup};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

const PAGE: usize = 30;

/// A database in a list.
pub(crate) struct DatabaseItem {
    pub(crate) owner: String,
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) description: Option<String>,
    pub(crate) is_private: bool,
    pub(crate) is_fork: bool,
    pub(crate) stars: Option<String>,
    pub(crate) size: String,
    pub(crate) written: Option<Markup>,
}

/// Converts databases to list items.
pub(crate) fn items(views: &[DatabaseView], now: Timestamp) -> Vec<DatabaseItem> {
    views
        .iter()
        .map(|view| {
            let database = &view.database;
            DatabaseItem {
                owner: database.locator.owner.to_string(),
                name: database.locator.name.to_string(),
                path: paths::database(&database.locator),
                description: database.description.clone(),
                is_private: database.visibility == Visibility::Private,
                is_fork: database.parent_id.is_some(),
                stars: u64::try_from(database.star_count)
                    .ok()
                    .filter(|stars| *stars > 0)
                    .map(|stars| format::counted(stars, "star", "stars")),
                size: format::size(database.size_bytes),
                written: database.last_write_at.map(|at| format::when(at, now)),
            }
        })
        .collect()
}

/// The order of a list of databases.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExploreOrder {
    Ranked(Ranking),
    Name,
}

/// The orders: values of `sort`, labels and orders. The first one is the default.
const ORDERS: [(&str, &str, ExploreOrder); 4] = [
    ("", "Most stars", ExploreOrder::Ranked(Ranking::Stars)),
    ("updated", "Recently updated", ExploreOrder::Ranked(Ranking::LastWrite)),
    ("newest", "Newest", ExploreOrder::Ranked(Ranking::Creation)),
    ("name", "Name", ExploreOrder::Name),
];

/// A link to an order.
struct OrderLink {
    label: &'static str,
    href: String,
    is_shown: bool,
}

#[derive(Template)]
#[template(path = "explore.html")]
struct ExplorePage {
    shell: LayoutContext,
    orders: Vec<OrderLink>,
    databases: Vec<DatabaseItem>,
    next: Option<String>,
}

/// `GET /explore?q=…&sort=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let search = visit.parameter("q").unwrap_or_default();
    let asked = visit.parameter("sort").unwrap_or_default();
    let (word, _, order) = ORDERS.into_iter().find(|(word, ..)| *word == asked).unwrap_or(ORDERS[0]);
    let here =
        |word: &str, after: &str| paths::with_query("/explore", &[("q", &search), ("sort", word), ("after", after)]);
    let filter =
        DatabaseFilter { contains: Some(search.clone()).filter(|q| !q.is_empty()), ..DatabaseFilter::default() };
    let caller = visit.caller.clone();
    let after = visit.parameter("after").unwrap_or_default();
    let bound = bound(&["explore", word, &search]);
    let key: Option<(i64, String)> = open_token(&visit.state.keys, &bound, &after);
    let mut found = visit
        .read(move |hub| match order {
            ExploreOrder::Ranked(ranking) => {
                let after = key.and_then(|(place, id)| Some((place, DatabaseId::parse(&id).ok()?)));
                hub.databases().ranked(&caller, &filter, ranking, after, PAGE + 1)
            }
            ExploreOrder::Name => {
                let after = after.to_ascii_lowercase();
                hub.databases().list(&caller, &filter, after.split_once('/'), PAGE + 1)
            }
        })
        .await?;
    let more = found.len() > PAGE;
    found.truncate(PAGE);
    let next = found.last().filter(|_| more).map(|DatabaseView { database, .. }| match order {
        ExploreOrder::Ranked(ranking) => {
            here(word, &token(&visit.state, &bound, &(ranking.of(database), database.id.to_string())))
        }
        ExploreOrder::Name => here(word, &database.locator.to_string()),
    });
    let orders = ORDERS
        .iter()
        .map(|(other, label, _)| OrderLink { label, href: here(other, ""), is_shown: *other == word })
        .collect();
    let databases = items(&found, visit.state.services.now());
    visit.page(|shell| ExplorePage { shell: shell.searching(search.clone()), orders, databases, next })
}
