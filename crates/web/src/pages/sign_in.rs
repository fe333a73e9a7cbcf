//! `/sign-in`

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use askama::Template;
use branchyard_domain::errors::{PortError, SignInError};
use branchyard_domain::usecases::SignUp;
use branchyard_problem_details::Problem;

use crate::format;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::pages::sql::kept_statements::{KEPT, KeptStatements, MOST};
use crate::paths;
use crate::session::CookieKind;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    shell: LayoutContext,
    form: Filled,
    may_sign_up: bool,
}

/// Leads back to statements that were typed before the sign-in.
#[derive(Template)]
#[template(path = "sign_in_kept.html")]
struct KeptPage {
    shell: LayoutContext,
    kept: KeptStatements,
}

/// Shows the form of the sign-in to a user whose session ended while statements were typed, and keeps these for the same user.
pub(super) fn keeping(visit: &PageContext, kept: &KeptStatements) -> PageResult {
    let text = match kept.statements.is_empty() {
        false => "Your session has ended. Your statements are kept; sign in again to go on.".to_owned(),
        true => format!("Your session has ended. Statements of more than {} KiB cannot be kept.", MOST >> 10),
    };
    let form = Filled::default().with("next", &kept.path).with(KEPT, kept.sealed(visit)).wrong("", text);
    let may_sign_up = may_sign_up(visit);
    visit.render(StatusCode::FORBIDDEN, |shell| SignInPage { shell, form, may_sign_up })
}

/// Returns `true` if everyone may sign up.
pub(super) fn may_sign_up(visit: &PageContext) -> bool {
    visit.state.services.limits().sign_up == SignUp::Open
}

/// Formats the error for too many attempts. The remaining wait is rounded up to minutes.
pub(super) fn too_many_attempts(seconds: i64) -> String {
    let minutes = format::counted(((seconds + 59) / 60).unsigned_abs(), "minute", "minutes");
    format!("Too many attempts. Try again in {minutes}.")
}

/// `GET /sign-in`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let next = visit.parameter("next");
    if visit.caller.user().is_some() {
        return visit.redirect(paths::local(next.as_deref()));
    }
    let form = Filled::default().with("next", paths::local(next.as_deref()));
    let may_sign_up = may_sign_up(&visit);
    visit.page(|shell| SignInPage { shell, form, may_sign_up })
}

/// `POST /sign-in`
pub(crate) async fn send(posted: FormPost) -> PageResult {
    let (name, password) = (posted.form.line("name"), posted.form.text("password"));
    let again = |status: StatusCode, text: String| {
        let form = posted.form.again().wrong("", text);
        let may_sign_up = may_sign_up(&posted);
        posted.render(status, |shell| SignInPage { shell, form, may_sign_up })
    };
    if let Some(seconds) = posted.count_sign_in(&name).await? {
        return again(StatusCode::TOO_MANY_REQUESTS, too_many_attempts(seconds));
    }
    let client = posted.client();
    let opened = posted
        .write_session(move |hub| -> Result<_, PortError> {
            match hub.sessions().sign_in(&name, &password, client) {
                Ok(opened) => Ok(Ok(opened)),
                Err(error @ (SignInError::Wrong | SignInError::Suspended)) => Ok(Err(error)),
                Err(SignInError::Port(fault)) => Err(fault),
            }
        })
        .await?;
    match opened {
        Ok(opened) => {
            let next = posted.form.line("next");
            let cookie = CookieKind::Session.set(&posted.state, opened.secret.expose());
            let kept = KeptStatements::open(&posted, opened.user.id).filter(|kept| !kept.statements.is_empty());
            let Some(kept) = kept else { return posted.redirect_with(paths::local(Some(&next)), [cookie]) };
            let secret = opened.secret.expose();
            let mut page =
                posted.page(|shell| KeptPage { shell: shell.signed_in(&posted, &opened.user, secret), kept })?;
            let cookie = HeaderValue::from_str(&cookie).map_err(|_| Problem::internal())?;
            page.headers_mut().append(header::SET_COOKIE, cookie);
            Ok(page)
        }
        Err(SignInError::Suspended) => {
            again(StatusCode::FORBIDDEN, "This account is suspended. Ask your administrator.".to_owned())
        }
        Err(_) if posted.form.line("name").contains('@') => {
            let text = "Sign in with your username, not with an email address.";
            again(StatusCode::UNPROCESSABLE_ENTITY, text.to_owned())
        }
        Err(_) => again(StatusCode::UNPROCESSABLE_ENTITY, "Wrong username or password.".to_owned()),
    }
}
