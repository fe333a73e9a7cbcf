//! `/settings/sessions`

use askama::Template;
use branchyard_domain::errors::PortError;
use branchyard_domain::values::SessionId;

use super::{SettingsNav, sections};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::forms::FormPost;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::session::CookieKind;

const HERE: &str = "/settings/sessions";

struct SessionItem {
    id: String,
    browser: String,
    address: String,
    used: Markup,
    began: Markup,
    is_this: bool,
}

#[derive(Template)]
#[template(path = "settings/sessions.html")]
struct SessionsPage {
    shell: LayoutContext,
    sections: SettingsNav,
    here: &'static str,
    sessions: Vec<SessionItem>,
}

/// `GET /settings/sessions`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let user = visit.user()?;
    let found = visit.read(move |hub| -> Result<_, PortError> { hub.sessions().list(&user) }).await?;
    let (now, this) = (visit.state.services.now(), visit.session.as_ref().map(|session| session.id));
    let sessions = found
        .into_iter()
        .map(|session| SessionItem {
            id: session.id.to_string(),
            browser: browser(&session.last_use.user_agent),
            address: session.last_use.address,
            used: format::when(session.last_use.at, now),
            began: format::when(session.created_at, now),
            is_this: Some(session.id) == this,
        })
        .collect();
    let beside = sections(&visit);
    visit.page(|shell| SessionsPage { shell, sections: beside, here: HERE, sessions })
}

/// `POST /settings/sessions/end`
pub(crate) async fn end(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    let id = SessionId::parse(&posted.form.line("id")).map_err(|_| PageError::nothing_here())?;
    posted.write_session(move |hub| -> Result<_, PortError> { hub.sessions().end(&user, id) }).await?;
    posted.redirect_saying(HERE, "Session ended.")
}

/// `POST /settings/sessions/end-all`
pub(crate) async fn end_all(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    let kept = posted.session.as_ref().map(|session| session.id).filter(|_| !posted.form.is_checked("here"));
    posted.write_session(move |hub| -> Result<_, PortError> { hub.sessions().end_all(&user, kept) }).await?;
    match kept {
        Some(_) => posted.redirect_saying(HERE, "You were signed out on all other devices."),
        None => posted.redirect_with("/sign-in", [CookieKind::Session.clear(&posted.state)]),
    }
}

/// Returns a short name of the browser and system that a user agent describes.
fn browser(agent: &str) -> String {
    let first =
        |known: &[(&str, &'static str)]| known.iter().find(|(mark, _)| agent.contains(mark)).map(|(_, name)| *name);
    // The order matters: most browsers also claim to be Chrome or Safari.
    let name = first(&[
        ("Firefox/", "Firefox"),
        ("Edg/", "Edge"),
        ("OPR/", "Opera"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
    ]);
    let system = first(&[
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Windows", "Windows"),
        ("Mac OS", "macOS"),
        ("Linux", "Linux"),
    ]);
    match (name, system) {
        (Some(name), Some(system)) => format!("{name} on {system}"),
        (Some(name), None) => name.to_owned(),
        _ if agent.is_empty() => "Unknown device".to_owned(),
        _ => agent.chars().take(60).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::browser;

    #[test]
    fn browsers_are_told_apart() {
        let cases = [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
            (
                "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0",
                "Edge on Windows",
            ),
            ("Mozilla/5.0 (Macintosh; Intel Mac OS X) Version/18 Safari/605.1", "Safari on macOS"),
            ("curl/8.0", "curl/8.0"),
            ("", "Unknown device"),
        ];
        for (agent, words) in cases {
            assert_eq!(browser(agent), words);
        }
    }
}
