//! `/`: the viewer's databases and recent activity. Visitors see an introduction and public databases.

use askama::Template;
use branchyard_domain::entities::MemberRole;
use branchyard_domain::errors::DatabaseError;
use branchyard_domain::ports::{DatabaseFilter, Ranking};

use super::explore::{DatabaseItem, items};
use super::imports::upload::FileField;
use super::{sample, sign_in};
use crate::activity_feed;
use crate::api_snippets;
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
    /// What a viewer without a database can do.
    first_steps: FirstSteps,
}

/// What a viewer without a database can do.
struct FirstSteps {
    file: FileField,
    has_sample: bool,
    /// Whether there are databases of others to see.
    has_others: bool,
    /// The request that creates a database.
    curl: String,
    /// The address of that database for clients that clone. `None` if the server has no remotes.
    clone: Option<String>,
    /// Whether clients reach the server over https.
    is_secure: bool,
}

impl FirstSteps {
    fn new(visit: &PageContext, name: &str, has_others: bool) -> Self {
        let config = &visit.state.config;
        Self {
            file: FileField::new(visit, true),
            has_sample: sample::is_offered(visit),
            has_others,
            curl: api_snippets::create_database(&format!("{}/api/v2", config.public_url), name),
            clone: config.remotes.enabled.then(|| format!("{}/{name}/first", config.public_url)),
            is_secure: config.is_secure(),
        }
    }
}

#[derive(Template)]
#[template(path = "welcome.html")]
struct WelcomePage {
    shell: LayoutContext,
    databases: Vec<DatabaseItem>,
    origin: String,
    may_sign_up: bool,
}

/// `GET /`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    match visit.caller.user().cloned() {
        None => welcome(&visit).await,
        Some(user) => {
            let (caller, filter) =
                (visit.caller.clone(), DatabaseFilter { owner: Some(user.name.clone()), ..DatabaseFilter::default() });
            let of = std::sync::Arc::clone(&user);
            let (found, news, organizations, has_others) = visit
                .read(move |hub| -> Result<_, DatabaseError> {
                    let found = hub.databases().ranked(&caller, &filter, Ranking::LastWrite, None, MINE)?;
                    let news = hub.activities().news(&of, NEWS)?;
                    let has_others = found.is_empty()
                        && !hub.databases().list(&caller, &DatabaseFilter::default(), None, 1)?.is_empty();
                    Ok((found, news, hub.organizations().list(&of, None, ORGANIZATIONS), has_others))
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
            let name = user.name.to_string();
            let first_steps = FirstSteps::new(&visit, &name, has_others);
            visit.page(|shell| HomePage { shell, name, databases, news, organizations, first_steps })
        }
    }
}

async fn welcome(visit: &PageContext) -> PageResult {
    let caller = visit.caller.clone();
    let found =
        visit.read(move |hub| hub.databases().list(&caller, &DatabaseFilter::default(), None, FOR_STRANGERS)).await?;
    let databases = items(&found, visit.state.services.now());
    let origin = visit.state.config.public_url.clone();
    let may_sign_up = sign_in::may_sign_up(visit);
    visit.page(|shell| WelcomePage { shell, databases, origin, may_sign_up })
}
