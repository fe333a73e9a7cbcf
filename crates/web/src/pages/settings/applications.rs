//! `/settings/applications`: what the user granted to applications, and the applications that the user registered.

use askama::Template;
use branchyard_domain::entities::RegisteredApplication;
use branchyard_domain::errors::{ApplicationError, PortError};
use branchyard_domain::usecases::Applications;
use branchyard_domain::values::{ApplicationId, GrantId};

use super::{SettingsNav, sections};
use crate::error_page::PageError;
use crate::forms::{Filled, FormPost};
use crate::grants_view::{ApplicationItem, GrantItem};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

const HERE: &str = "/settings/applications";
/// Grants that a page lists.
const PAGE: usize = 50;

#[derive(Template)]
#[template(path = "settings/applications.html")]
struct ApplicationsPage {
    shell: LayoutContext,
    sections: SettingsNav,
    here: &'static str,
    form: Filled,
    origin: String,
    grants: Vec<GrantItem>,
    next: Option<String>,
    own: Vec<ApplicationItem>,
}

#[derive(Template)]
#[template(path = "settings/delete_application.html")]
struct DeletePage {
    shell: LayoutContext,
    sections: SettingsNav,
    here: &'static str,
    id: String,
    name: String,
}

/// Returns the applications that the user registered.
async fn own(visit: &PageContext) -> Result<Vec<RegisteredApplication>, PageError> {
    let user = visit.user()?;
    let all = usize::try_from(Applications::PER_USER).unwrap_or(usize::MAX);
    Ok(visit.read(move |hub| hub.applications().list(&user, None, all)).await?)
}

async fn fill(
    visit: &PageContext,
    form: Filled,
) -> Result<impl FnOnce(LayoutContext) -> ApplicationsPage + use<>, PageError> {
    let user = visit.user()?;
    let after = visit.parameter("after").and_then(|text| GrantId::parse(&text).ok());
    let mut found = visit.read(move |hub| hub.grants().list(&user, after, PAGE + 1)).await?;
    let next = paths::next_page(&mut found, PAGE, HERE, |view| view.grant.id.to_string());
    let now = visit.state.services.now();
    let grants = found.into_iter().map(|view| GrantItem::of(view, now)).collect();
    let own = own(visit).await?.into_iter().map(|found| ApplicationItem::of(found, now)).collect();
    let (sections, origin) = (sections(visit), visit.state.config.public_url.clone());
    Ok(move |shell| ApplicationsPage { shell, sections, here: HERE, form, origin, grants, next, own })
}

/// Returns the lines of a text that are not blank, without surrounding white space.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// `GET /settings/applications`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let page = fill(&visit, Filled::default()).await?;
    visit.page(page)
}

/// `POST /settings/applications`
pub(crate) async fn register(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    posted.confirmed(HERE)?;
    let (name, redirect_uris) = (posted.form.line("name"), lines(&posted.form.text("redirect_uris")));
    let registered = posted
        .write(move |hub| -> Result<_, PortError> {
            match hub.applications().register(&user, &name, &redirect_uris) {
                Ok(application) => Ok(Ok(application.name)),
                Err(ApplicationError::Port(fault)) => Err(fault),
                Err(error @ ApplicationError::Name(_)) => Ok(Err(("name", error.to_string()))),
                Err(error @ (ApplicationError::RedirectUri(_) | ApplicationError::RedirectUriCount(_))) => {
                    Ok(Err(("redirect_uris", error.to_string())))
                }
                Err(error) => Ok(Err(("", error.to_string()))),
            }
        })
        .await?;
    match registered {
        Ok(name) => posted.redirect_saying(HERE, &format!("Application “{name}” registered.")),
        Err((field, why)) => {
            let page = fill(&posted, posted.form.again().wrong(field, why)).await?;
            posted.refuse(page)
        }
    }
}

/// `POST /settings/applications/grants/{id}/revoke`
pub(crate) async fn revoke(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    let id = GrantId::parse(&posted.segment("id")).map_err(|_| PageError::nothing_here())?;
    posted.write_always(move |hub| hub.grants().end(&user, id)).await?;
    posted.redirect_saying(HERE, "Access revoked.")
}

/// `GET /settings/applications/{id}/delete`
pub(crate) async fn ask(visit: PageContext) -> PageResult {
    let id = visit.segment("id");
    let is_asked = |found: &RegisteredApplication| found.application.id.as_str() == id;
    let found = own(&visit).await?.into_iter().find(is_asked).ok_or_else(PageError::nothing_here)?;
    let (sections, name) = (sections(&visit), found.application.name);
    visit.page(|shell| DeletePage { shell, sections, here: HERE, id, name })
}

/// `POST /settings/applications/{id}/delete`
pub(crate) async fn delete(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    posted.confirmed(HERE)?;
    let id = ApplicationId::parse(&posted.segment("id")).map_err(|_| PageError::nothing_here())?;
    posted.write_always(move |hub| hub.applications().remove(&user, &id)).await?;
    posted.redirect_saying(HERE, "Application deleted.")
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn blank_lines_and_white_space_around_redirect_uris_are_ignored() {
        let expected = ["https://a.test/callback", "http://localhost/callback"];
        assert_eq!(lines("\n  https://a.test/callback \r\n\t\nhttp://localhost/callback"), expected);
        assert_eq!(lines(" \n\n"), Vec::<String>::new());
    }
}
