//! `/settings/password`

use actix_web::http::StatusCode;
use askama::Template;
use branchyard_auth::PlainPassword;
use branchyard_domain::errors::{PortError, SignInError};

use super::{SettingsNav, sections};
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::pages::sign_in::too_many_attempts;

const HERE: &str = "/settings/password";

#[derive(Template)]
#[template(path = "settings/password.html")]
struct PasswordPage {
    shell: LayoutContext,
    sections: SettingsNav,
    here: &'static str,
    form: Filled,
    has_password: bool,
}

fn fill(visit: &PageContext, form: Filled) -> impl FnOnce(LayoutContext) -> PasswordPage {
    let sections = sections(visit);
    let has_password = visit.caller.user().is_some_and(|user| user.password_hash.is_some());
    move |shell| PasswordPage { shell, sections, here: HERE, form, has_password }
}

/// `GET /settings/password`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    visit.user()?;
    visit.page(fill(&visit, Filled::default()))
}

/// `POST /settings/password`
pub(crate) async fn send(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    let mut form = posted.form.again();
    // The form could be used to guess the password, so it shares the rate limit of the sign-in page.
    if let Some(seconds) = posted.count_sign_in(user.name.as_str()).await? {
        let form = form.wrong("", too_many_attempts(seconds));
        return posted.render(StatusCode::TOO_MANY_REQUESTS, fill(&posted, form));
    }
    let new = form.checked("new_password", PlainPassword::choose(posted.form.text("new_password")));
    let Some(new) = new else { return posted.refuse(fill(&posted, form)) };
    let (old, keep) = (posted.form.text("old_password"), posted.session.as_ref().map(|session| session.id));
    let is_right = posted
        .write(move |hub| -> Result<_, PortError> {
            let hashed = new.hash_from(&mut |buffer| hub.random(buffer));
            let hash = hashed.map_err(|_| PortError::Unsettled("a password could not be hashed"))?;
            match hub.sessions().change_password(&user, &old, &hash, keep) {
                Ok(()) => Ok(true),
                Err(SignInError::Wrong | SignInError::Suspended) => Ok(false),
                Err(SignInError::Port(fault)) => Err(fault),
            }
        })
        .await?;
    if !is_right {
        return posted.refuse(fill(&posted, form.wrong("old_password", "Incorrect password.")));
    }
    posted.redirect_saying(HERE, "Password changed. You were signed out on all other devices.")
}
