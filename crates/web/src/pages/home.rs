//! `/`: the viewer's databases and recent activity. Visitors see an introduction and public databases.

use askama::Template;
use branchyard_domain::entities::MemberRole;
use branchyard_domain::errors::DatabaseError;
use branchyard_domain::ports::{DatabaseFilter, Ranking};

use super::explore::{DatabaseItem, items};
use crate::activity_feed;
use crate::error_page::PageError;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};

/// The viewer's databases on the page, last written first. The viewer's own page lists all of them.
const MINE: usize = 10;
/// Organizations listed.
const ORGANIZATIONS: usize = 100;
/// Activities listed.
const NEWS: usize = 30;
/// Public databases on the welcome page.
const FOR_STRANGERS: usize = 8;

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    shell: LayoutContext,
    name: String,
    databases: Vec<DatabaseItem>,
    news: Vec<activity_feed::ActivityItem>,
    organizations: Vec<(String, &'static str)>,
}

#[derive(Template)]
#[template(path = "welcome.html")]
struct WelcomePage {
    shell: LayoutContext,
    databases: Vec<DatabaseItem>,
    origin: String,
}

/// `GET /`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    match visit.caller.user().cloned() {
        None => welcome(&visit).await,
        Some(user) => {
            let (caller, filter) =
                (visit.caller.clone(), DatabaseFilter { owner: Some(user.name.clone()), ..DatabaseFilter::default() });
            let of = std::sync::Arc::clone(&user);
            let (found, news, organizations) = visit
                .read(move |hub| -> Result<_, DatabaseError> {
                    let found = hub.databases().ranked(&caller, &filter, Ranking::LastWrite, None, MINE)?;
                    let news = hub.activities().news(&of, NEWS)?;
                    Ok((found, news, hub.organizations().list(&of, None, ORGANIZATIONS)))
                })
                .await?;
            let organizations = organizations.map_err(|error| PageError::refused(error.into(), visit.request()))?;
            let now = visit.state.services.now();
            let databases = items(&found, now);
            let news = news.into_iter().map(|one| activity_feed::tell(one, now)).collect();
            let organizations = organizations
                .into_iter()
                .map(|view| {
                    let role = if view.role == Some(MemberRole::Owner) { "owner" } else { "member" };
                    (view.organization.name.to_string(), role)
                })
                .collect();
            visit.page(|shell| HomePage { shell, name: user.name.to_string(), databases, news, organizations })
        }
    }
}

async fn welcome(visit: &PageContext) -> PageResult {
    let caller = visit.caller.clone();
    let found =
        visit.read(move |hub| hub.databases().list(&caller, &DatabaseFilter::default(), None, FOR_STRANGERS)).await?;
    let databases = items(&found, visit.state.services.now());
    let origin = visit.state.config.public_url.clone();
    visit.page(|shell| WelcomePage { shell, databases, origin })
}
