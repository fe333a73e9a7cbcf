//! `/settings/confirm`: asks for the password again before what is hard to undo.

use actix_web::http::StatusCode;
use askama::Template;
use branchyard_domain::errors::{PortError, SignInError};

use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::pages::sign_in::too_many_attempts;
use crate::paths;

#[derive(Template)]
#[template(path = "settings/confirm.html")]
struct ConfirmPage {
    shell: LayoutContext,
    form: Filled,
}

/// `GET /settings/confirm`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    visit.user()?;
    let form = Filled::default().with("next", paths::local(visit.parameter("next").as_deref()));
    visit.page(|shell| ConfirmPage { shell, form })
}

/// `POST /settings/confirm`
pub(crate) async fn send(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    let again = |status: StatusCode, field: &'static str, text: String| {
        let form = posted.form.again().wrong(field, text);
        posted.render(status, |shell| ConfirmPage { shell, form })
    };
    // A stolen session could be used to guess the password here, so attempts count as those to sign in.
    if let Some(seconds) = posted.count_sign_in(user.name.as_str()).await? {
        return again(StatusCode::TOO_MANY_REQUESTS, "", too_many_attempts(seconds));
    }
    let Some(session) = posted.session.clone() else { return posted.redirect("/sign-in") };
    let password = posted.form.text("password");
    let is_right = posted
        .write(move |hub| -> Result<_, PortError> {
            match hub.sessions().confirm(&session, &user, &password) {
                Ok(()) => Ok(true),
                Err(SignInError::Wrong | SignInError::Suspended) => Ok(false),
                Err(SignInError::Port(fault)) => Err(fault),
            }
        })
        .await?;
    if !is_right {
        return again(StatusCode::UNPROCESSABLE_ENTITY, "password", "Incorrect password.".to_owned());
    }
    let next = posted.form.line("next");
    posted.redirect_saying(paths::local(Some(&next)), "Password confirmed. Submit the form again.")
}
