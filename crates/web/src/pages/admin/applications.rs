//! `/admin/applications`: all registered applications.

use askama::Template;
use branchyard_domain::values::ApplicationId;

use super::{SECTIONS, administrator, audit};
use crate::forms::FormPost;
use crate::grants_view::ApplicationItem;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

const HERE: &str = "/admin/applications";
const PAGE: usize = 50;

#[derive(Template)]
#[template(path = "admin/applications.html")]
struct ApplicationsPage {
    shell: LayoutContext,
    sections: &'static [(&'static str, &'static str)],
    here: &'static str,
    applications: Vec<ApplicationItem>,
    next: Option<String>,
}

/// `GET /admin/applications`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let proof = administrator(&visit)?;
    let after = visit.parameter("after").and_then(|text| ApplicationId::parse(&text).ok());
    let mut found = visit.read(move |hub| hub.administration().applications(&proof, after.as_ref(), PAGE + 1)).await?;
    let next = paths::next_page(&mut found, PAGE, HERE, |last| last.application.id.to_string());
    let now = visit.state.services.now();
    let applications = found.into_iter().map(|found| ApplicationItem::of(found, now)).collect();
    visit.page(|shell| ApplicationsPage { shell, sections: &SECTIONS, here: HERE, applications, next })
}

/// `POST /admin/applications/{id}/delete`
pub(crate) async fn delete(posted: FormPost) -> PageResult {
    let proof = administrator(&posted)?;
    posted.confirmed(HERE)?;
    let (by, id) = (proof.clone(), posted.segment("id"));
    let gone = posted.write_always(move |hub| hub.administration().remove_application(&by, &id)).await?;
    audit(&proof, "application delete", gone.id.as_str());
    posted.redirect_saying(HERE, &format!("Application “{}” deleted.", gone.name))
}
