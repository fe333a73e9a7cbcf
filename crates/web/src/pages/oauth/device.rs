//! `/oauth/device`: asks a user about an application on a device without a browser (RFC 8628 §3.3).

use actix_web::http::StatusCode;
use askama::Template;
use branchyard_auth::UserCode;
use branchyard_domain::entities::{DeviceAuthorization, RegisteredApplication, User};
use branchyard_domain::errors::{GrantError, PortError};
use branchyard_domain::usecases::Devices;
use branchyard_http_common::Services;
use branchyard_problem_details::{ErrorCode, Problem};

use crate::error_page::PageError;
use crate::forms::{Filled, FormPost};
use crate::grants_view::{ApplicationItem, DAYS_UNUSED, scope_words};
use crate::layout::{LayoutContext, never_stored};
use crate::page_context::{PageContext, PageResult};
use crate::pages::sign_in::too_many_attempts;
use crate::paths;

const HERE: &str = "/oauth/device";

/// The field and the parameter with the code (RFC 8628 §3.3.1).
const CODE: &str = "user_code";

/// Asks for the code.
#[derive(Template)]
#[template(path = "oauth/device.html")]
struct DevicePage {
    shell: LayoutContext,
    form: Filled,
}

#[derive(Template)]
#[template(path = "oauth/device_consent.html")]
struct DeviceConsentPage {
    shell: LayoutContext,
    application: ApplicationItem,
    user: String,
    scope: &'static str,
    days: i64,
    code: String,
}

fn ask_for_code(visit: &PageContext, status: StatusCode, form: Filled) -> PageResult {
    visit.render(status, |shell| DevicePage { shell, form }).map(never_stored)
}

/// Asks for the code again, because no device waits with the one that was typed.
fn ask_again(visit: &PageContext, typed: &str) -> PageResult {
    let minutes = Devices::SECONDS / 60;
    let error =
        format!("No device waits with this code. Codes expire after {minutes} minutes; get a new one on the device.");
    let form = Filled::default().with(CODE, typed).wrong(CODE, error);
    ask_for_code(visit, StatusCode::UNPROCESSABLE_ENTITY, form)
}

/// Returns the device that waits with this code. Codes are short, so attempts are counted like those to sign in (RFC 8628 §5.1).
async fn find(
    visit: &PageContext,
    user: &User,
    typed: &str,
) -> Result<Option<(DeviceAuthorization, RegisteredApplication)>, PageError> {
    let Ok(code) = UserCode::parse(typed) else { return Ok(None) };
    // Before the look-up, so that a right guess beyond the limit is refused, too. No name that is typed at the sign-in begins with a space.
    if let Some(seconds) = visit.count_sign_in(&format!(" device code of {}", user.id)).await? {
        let problem = Problem::new(ErrorCode::RateLimited, too_many_attempts(seconds));
        return Err(problem.retry_after(u32::try_from(seconds).unwrap_or(u32::MAX)).into());
    }
    let look_up = move |hub: &Services| -> Result<_, PortError> {
        match hub.devices().find(code) {
            Ok(found) => Ok(Some(found)),
            Err(GrantError::Port(fault)) => Err(fault),
            Err(_) => Ok(None),
        }
    };
    Ok(visit.read(look_up).await?)
}

fn ask_for_consent(
    visit: &PageContext,
    user: &User,
    (device, application): (DeviceAuthorization, RegisteredApplication),
) -> PageResult {
    let now = visit.state.services.now();
    let page = visit.page(|shell| DeviceConsentPage {
        shell,
        application: ApplicationItem::of(application, now),
        user: user.name.to_string(),
        scope: scope_words(device.scope),
        days: DAYS_UNUSED,
        code: device.user_code.to_string(),
    });
    page.map(never_stored)
}

/// `GET /oauth/device` and `GET /oauth/device?user_code=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let user = visit.user()?;
    let Some(typed) = visit.parameter(CODE) else { return ask_for_code(&visit, StatusCode::OK, Filled::default()) };
    match find(&visit, &user, &typed).await? {
        Some(found) => ask_for_consent(&visit, &user, found),
        None => ask_again(&visit, &typed),
    }
}

/// `POST /oauth/device`. Without a decision, it shows the consent page of the device.
pub(crate) async fn send(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    let typed = posted.form.line(CODE);
    if typed.is_empty() {
        let form = Filled::default().wrong(CODE, "Enter the code that your device shows.");
        return ask_for_code(&posted, StatusCode::UNPROCESSABLE_ENTITY, form);
    }
    let Some(found) = find(&posted, &user, &typed).await? else { return ask_again(&posted, &typed) };
    let code = found.0.user_code;
    let approves = match posted.form.line("decision").as_str() {
        "" => return ask_for_consent(&posted, &user, found),
        "approve" => true,
        "deny" => false,
        _ => return Err(PageError::InvalidAuthorization("the form has no decision".to_owned())),
    };
    if approves {
        posted.confirmed(&paths::with_query(HERE, &[(CODE, &code.to_string())]))?;
    }
    let session = posted.session.as_ref().map(|session| session.id);
    let is_decided = posted
        .write(move |hub| -> Result<_, PortError> {
            match hub.devices().decide(&user, session, code, approves) {
                Ok(_) => Ok(Ok(true)),
                Err(GrantError::Port(fault)) => Err(fault),
                Err(GrantError::SessionEnded) => Ok(Err(PageError::SignIn)),
                // The device stopped waiting in the meantime.
                Err(_) => Ok(Ok(false)),
            }
        })
        .await??;
    match (is_decided, approves) {
        (false, _) => ask_again(&posted, &typed),
        (true, true) => posted.redirect_saying(HERE, "Approved. Go back to your device.").map(never_stored),
        (true, false) => posted.redirect_saying(HERE, "Refused.").map(never_stored),
    }
}
