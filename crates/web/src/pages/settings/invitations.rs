//! `/settings/invitations`, for administrators of the server.

use askama::Template;
use branchyard_domain::errors::SignUpError;
use branchyard_domain::values::InvitationId;

use super::{SettingsNav, sections};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

const HERE: &str = "/settings/invitations";

struct InvitationItem {
    id: String,
    made: Markup,
    expires: Markup,
}

#[derive(Template)]
#[template(path = "settings/invitations.html")]
struct InvitationsPage {
    shell: LayoutContext,
    sections: SettingsNav,
    here: &'static str,
    form: Filled,
    link: Option<String>,
    open: Vec<InvitationItem>,
}

async fn fill(
    visit: &PageContext,
    form: Filled,
    link: Option<String>,
) -> Result<impl FnOnce(LayoutContext) -> InvitationsPage + use<>, PageError> {
    let user = visit.user()?;
    let found = visit.read(move |hub| hub.invitations().list(&user)).await?;
    let now = visit.state.services.now();
    let open = found
        .into_iter()
        .map(|invitation| InvitationItem {
            id: invitation.id.to_string(),
            made: format::when(invitation.created_at, now),
            expires: format::when(invitation.expires_at, now),
        })
        .collect();
    let sections = sections(visit);
    Ok(move |shell| InvitationsPage { shell, sections, here: HERE, form, link, open })
}

/// `GET /settings/invitations`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let page = fill(&visit, Filled::default(), None).await?;
    visit.page(page)
}

/// `POST /settings/invitations`. Only this response contains the link.
pub(crate) async fn create(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    posted.confirmed(HERE)?;
    let minted = posted
        .write(move |hub| -> Result<_, SignUpError> {
            match hub.invitations().create(&user) {
                Ok(minted) => Ok(Ok(minted.secret)),
                Err(SignUpError::Closed) => Ok(Err("Sign-up is closed on this server.".to_owned())),
                Err(SignUpError::TooManyInvitations(pending)) => {
                    Ok(Err(format!("There are already {pending} pending invitations. Revoke some first.")))
                }
                Err(other) => Err(other),
            }
        })
        .await?;
    match minted {
        Ok(secret) => {
            let path = paths::with_query("/sign-up", &[("invitation", secret.expose())]);
            let link = format!("{}{path}", posted.state.config.public_url);
            let page = fill(&posted, Filled::default(), Some(link)).await?;
            posted.page(page)
        }
        Err(why) => {
            let page = fill(&posted, Filled::default().wrong("", why), None).await?;
            posted.refuse(page)
        }
    }
}

/// `POST /settings/invitations/revoke`
pub(crate) async fn revoke(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    let id = InvitationId::parse(&posted.form.line("id")).map_err(|_| PageError::nothing_here())?;
    posted.write_always(move |hub| hub.invitations().revoke(&user, id)).await?;
    posted.redirect_saying(HERE, "Invitation revoked.")
}
