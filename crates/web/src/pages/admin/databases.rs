//! `/admin/databases`: all databases, and their quarantine.

use askama::Template;
use branchyard_domain::access::ServerAdmin;
use branchyard_domain::entities::{Database, Visibility};
use branchyard_domain::errors::AdministrationError;
use branchyard_domain::ports::DatabaseFilter;
use branchyard_domain::usecases::Administration;

use super::{SECTIONS, administrator, audit};
use crate::format::{self, Markup};
use crate::forms::FormPost;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

const HERE: &str = "/admin/databases";
const PAGE: usize = 50;

struct DatabaseItem {
    locator: String,
    owner: String,
    name: String,
    is_private: bool,
    quarantined: Option<Markup>,
    size: String,
    written: Option<Markup>,
}

#[derive(Template)]
#[template(path = "admin/databases.html")]
struct DatabasesPage {
    shell: LayoutContext,
    sections: &'static [(&'static str, &'static str)],
    here: &'static str,
    search: String,
    is_quarantined: bool,
    databases: Vec<DatabaseItem>,
    next: Option<String>,
}

/// `GET /admin/databases?q=…&show=quarantined`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let proof = administrator(&visit)?;
    let search = visit.parameter("q").unwrap_or_default();
    let is_quarantined = visit.parameter("show").as_deref() == Some("quarantined");
    let filter = DatabaseFilter {
        contains: Some(search.clone()).filter(|text| !text.is_empty()),
        is_quarantined: is_quarantined.then_some(true),
        ..DatabaseFilter::default()
    };
    let after = visit.parameter("after").unwrap_or_default().to_ascii_lowercase();
    let mut found =
        visit.read(move |hub| hub.administration().databases(&proof, &filter, after.split_once('/'), PAGE + 1)).await?;
    let is_more = found.len() > PAGE;
    found.truncate(PAGE);
    let next = found.last().filter(|_| is_more).map(|last| {
        let show = if is_quarantined { "quarantined" } else { "" };
        paths::with_query(HERE, &[("q", &search), ("show", show), ("after", &last.locator.to_string())])
    });
    let now = visit.state.services.now();
    let databases = found
        .into_iter()
        .map(|database| DatabaseItem {
            locator: database.locator.to_string(),
            owner: database.locator.owner.to_string(),
            name: database.locator.name.to_string(),
            is_private: database.visibility == Visibility::Private,
            quarantined: database.quarantined_at.map(|at| format::when(at, now)),
            size: format::size(database.size_bytes),
            written: database.last_write_at.map(|at| format::when(at, now)),
        })
        .collect();
    visit.page(|shell| DatabasesPage {
        shell,
        sections: &SECTIONS,
        here: HERE,
        search: search.clone(),
        is_quarantined,
        databases,
        next,
    })
}

async fn change(
    posted: FormPost,
    action: &'static str,
    act: impl FnOnce(&Administration<'_>, &ServerAdmin, &str, &str) -> Result<Database, AdministrationError>
    + Send
    + 'static,
) -> PageResult {
    let proof = administrator(&posted)?;
    posted.confirmed(HERE)?;
    let (by, owner, name) = (proof.clone(), posted.form.line("owner"), posted.form.line("name"));
    let database = posted.write_always(move |hub| act(&hub.administration(), &by, &owner, &name)).await?;
    audit(&proof, action, &database.locator.to_string());
    let said = if database.quarantined_at.is_some() { "is quarantined" } else { "is released" };
    posted.redirect_saying(HERE, &format!("{} {said}.", database.locator))
}

/// `POST /admin/databases/quarantine`
pub(crate) async fn quarantine(posted: FormPost) -> PageResult {
    change(posted, "database quarantine", |administration, proof, owner, name| {
        administration.quarantine(proof, owner, name)
    })
    .await
}

/// `POST /admin/databases/release`
pub(crate) async fn release(posted: FormPost) -> PageResult {
    change(posted, "database release", |administration, proof, owner, name| administration.release(proof, owner, name))
        .await
}
