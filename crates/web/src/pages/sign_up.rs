//! `/sign-up`: open to everyone or to invited people, depending on the configuration.

use actix_web::http::StatusCode;
use askama::Template;
use branchyard_auth::PlainPassword;
use branchyard_domain::errors::{PeopleError, PortError, SignUpError};
use branchyard_domain::usecases::Applicant;
use branchyard_domain::values::{EmailAddress, OwnerName};

use crate::error_page::sentence;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::session::CookieKind;

use super::sign_in::too_many_attempts;

#[derive(Template)]
#[template(path = "sign_up.html")]
struct SignUpPage {
    shell: LayoutContext,
    form: Filled,
    /// Why the visitor cannot sign up.
    closed: Option<String>,
    is_administrator: bool,
}

/// Whether the invitation is for an administrator, or the reason why the visitor cannot sign up.
type Admitted = Result<bool, String>;

/// Returns the reason as a sentence.
fn reason(error: &SignUpError) -> String {
    match error {
        SignUpError::Closed => "Sign-up is closed on this server.".to_owned(),
        SignUpError::InvitationNeeded => "This server is invitation-only.".to_owned(),
        SignUpError::NoSuchInvitation => {
            "This invitation is no longer valid: it was used, was revoked or has expired.".to_owned()
        }
        other => sentence(&other.to_string()),
    }
}

async fn admitted(visit: &PageContext, invitation: &str) -> Result<Admitted, crate::error_page::PageError> {
    let secret = Some(invitation.to_owned()).filter(|text| !text.is_empty());
    let checked = visit
        .read(move |hub| -> Result<_, PortError> {
            match hub.invitations().check(secret.as_deref()) {
                Ok(invitation) => Ok(Ok(invitation.is_some_and(|invitation| invitation.is_admin))),
                Err(SignUpError::Port(fault)) => Err(fault),
                Err(other) => Ok(Err(reason(&other))),
            }
        })
        .await?;
    Ok(checked)
}

/// `GET /sign-up?invitation=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    if visit.caller.user().is_some() {
        return visit.redirect("/");
    }
    let invitation = visit.parameter("invitation").unwrap_or_default();
    let form = Filled::default().with("invitation", &invitation);
    match admitted(&visit, &invitation).await? {
        Ok(is_administrator) => visit.page(|shell| SignUpPage { shell, form, closed: None, is_administrator }),
        Err(why) => visit.render(StatusCode::FORBIDDEN, |shell| SignUpPage {
            shell,
            form,
            closed: Some(why),
            is_administrator: false,
        }),
    }
}

/// `POST /sign-up`
pub(crate) async fn send(posted: FormPost) -> PageResult {
    let mut form = posted.form.again();
    let invitation = posted.form.line("invitation");
    let is_administrator = match admitted(&posted, &invitation).await? {
        Ok(is_administrator) => is_administrator,
        Err(why) => {
            return posted.render(StatusCode::FORBIDDEN, |shell| SignUpPage {
                shell,
                form,
                closed: Some(why),
                is_administrator: false,
            });
        }
    };
    let name = form.checked("name", OwnerName::parse(&posted.form.line("name")));
    let email = form.checked("email", EmailAddress::parse(&posted.form.line("email")));
    let password = form.checked("password", PlainPassword::choose(posted.form.text("password")));
    let again = |form: Filled| posted.refuse(|shell| SignUpPage { shell, form, closed: None, is_administrator });
    let (Some(name), Some(email), Some(password)) = (name, email, password) else { return again(form) };
    if let Some(seconds) = posted.count_sign_in(name.as_str()).await? {
        return again(form.wrong("", too_many_attempts(seconds)));
    }
    let client = posted.client();
    let signed_up = posted
        .write(move |hub| -> Result<_, PortError> {
            let hashed = password.hash_from(&mut |buffer| hub.random(buffer));
            let password = hashed.map_err(|_| PortError::Unsettled("a password could not be hashed"))?;
            let secret = Some(invitation.as_str()).filter(|text| !text.is_empty());
            match hub.invitations().sign_up(Applicant { name, email, password }, secret) {
                Ok(user) => Ok(Ok(hub.sessions().open(user, client)?)),
                Err(SignUpError::Port(fault) | SignUpError::People(PeopleError::Port(fault))) => Err(fault),
                Err(SignUpError::People(people)) => Ok(Err(("name", people.to_string()))),
                Err(other) => Ok(Err(("", reason(&other)))),
            }
        })
        .await?;
    match signed_up {
        Ok(opened) => posted.redirect_with("/", [CookieKind::Session.set(&posted.state, opened.secret.expose())]),
        Err((field, why)) => again(form.wrong(field, why)),
    }
}
