//! `/oauth/authorize`: asks a user to let an application act, and sends the answer to the application (RFC 6749 §4.1).

use std::sync::Arc;

use actix_web::http::header::{self, HeaderValue};
use askama::Template;
use branchyard_auth::CodeChallenge;
use branchyard_domain::entities::{RegisteredApplication, User};
use branchyard_domain::errors::{ApplicationError, GrantError, PortError};
use branchyard_domain::usecases::AuthorizationRequest;
use branchyard_domain::values::{RedirectUri, Scope};
use branchyard_problem_details::Problem;

use super::authorization_params::{AuthorizationError, AuthorizationParams};
use crate::error_page::PageError;
use crate::forms::FormPost;
use crate::grants_view::{ApplicationItem, DAYS_UNUSED, scope_words};
use crate::layout::{LayoutContext, never_stored, policy_with_form_target};
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// A request to a signed-in user, by an application that may receive the answer.
struct IdentifiedRequest {
    user: Arc<User>,
    application: RegisteredApplication,
    redirect_uri: RedirectUri,
    /// What the application asks for, or what it receives because its request is not valid.
    wanted: Result<(Scope, CodeChallenge), AuthorizationError>,
}

#[derive(Template)]
#[template(path = "oauth/consent.html")]
struct ConsentPage {
    shell: LayoutContext,
    application: ApplicationItem,
    /// Whether another user registered the application.
    is_foreign: bool,
    user: String,
    scope: &'static str,
    days: i64,
    origin: String,
    hidden: Vec<(&'static str, String)>,
}

/// Checks everything that has to hold before a user is redirected to an application (RFC 6749 §4.1.2.1). The user has to be signed in
/// (RFC 9700 §4.11.2).
async fn identify(visit: &PageContext, params: &AuthorizationParams) -> Result<IdentifiedRequest, PageError> {
    let refused = |error: GrantError| PageError::InvalidAuthorization(error.to_string());
    let (id, redirect_uri) = params.client().map_err(PageError::InvalidAuthorization)?;
    let found = visit
        .read(move |hub| -> Result<_, PortError> {
            match hub.applications().find(&id) {
                Ok(found) => Ok(Some(found)),
                Err(ApplicationError::Port(fault)) => Err(fault),
                Err(_) => Ok(None),
            }
        })
        .await?;
    let application = found.ok_or_else(|| refused(GrantError::UnknownApplication))?;
    if !application.application.admits(&redirect_uri) {
        return Err(refused(GrantError::UnknownRedirectUri));
    }
    Ok(IdentifiedRequest { user: visit.user()?, application, redirect_uri, wanted: params.wanted() })
}

/// Returns `true` if a user may be sent to a URI without being asked: to the own machine, or to an application of the user. Any user can
/// register an application whose requests are not valid, so as to send others to its site from an address of this server (RFC 9700
/// §4.11.2).
fn is_trusted(user: &User, application: &RegisteredApplication, redirect_uri: &RedirectUri) -> bool {
    redirect_uri.is_loopback() || application.application.owner == Some(user.id)
}

/// Returns the redirect URI with `answer`, the state of the request, and the issuer (RFC 9207).
fn address(visit: &PageContext, to: &RedirectUri, state: Option<&str>, answer: &[(&str, &str)]) -> String {
    let issuer = ("iss", visit.state.config.public_url.as_str());
    let sent = answer.iter().copied().chain(state.map(|state| ("state", state))).chain([issuer]);
    let query: Vec<String> = sent.map(|(name, value)| paths::parameter(name, value)).collect();
    to.with_query(&query.join("&"))
}

fn address_of_error(visit: &PageContext, to: &RedirectUri, state: Option<&str>, error: AuthorizationError) -> String {
    address(visit, to, state, &[("error", error.code), ("error_description", error.description)])
}

fn respond_with_error(
    visit: &PageContext,
    to: &RedirectUri,
    state: Option<&str>,
    error: AuthorizationError,
) -> PageResult {
    visit.redirect(&address_of_error(visit, to, state, error)).map(never_stored)
}

/// `GET /oauth/authorize?response_type=code&client_id=…&redirect_uri=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let params = AuthorizationParams::read(|name| visit.parameters(name));
    let IdentifiedRequest { user, application, redirect_uri, wanted } = identify(&visit, &params).await?;
    let scope = match wanted {
        Ok((scope, _)) => scope,
        Err(error) if is_trusted(&user, &application, &redirect_uri) => {
            return respond_with_error(&visit, &redirect_uri, params.state(), error);
        }
        Err(error) => {
            let to = address_of_error(&visit, &redirect_uri, params.state(), error);
            return Err(PageError::MistakenApplication { text: error.description.to_owned(), to });
        }
    };
    let now = visit.state.services.now();
    let is_foreign = application.application.owner.is_some_and(|owner| owner != user.id);
    let page = visit.page(|shell| ConsentPage {
        shell,
        application: ApplicationItem::of(application, now),
        is_foreign,
        user: user.name.to_string(),
        scope: scope_words(scope),
        days: DAYS_UNUSED,
        origin: redirect_uri.origin().to_owned(),
        hidden: params.hidden(),
    });
    let mut page = page.map(never_stored)?;
    let policy = policy_with_form_target(redirect_uri.origin());
    let policy = HeaderValue::from_str(&policy).map_err(|_| Problem::internal())?;
    page.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    Ok(page)
}

/// `POST /oauth/authorize`
pub(crate) async fn send(posted: FormPost) -> PageResult {
    let params = AuthorizationParams::read(|name| posted.form.all(name));
    let IdentifiedRequest { user, application, redirect_uri, wanted } = identify(&posted, &params).await?;
    let (scope, challenge) = match wanted {
        Ok(wanted) => wanted,
        Err(error) => return respond_with_error(&posted, &redirect_uri, params.state(), error),
    };
    match posted.form.line("decision").as_str() {
        "approve" => posted.confirmed(&params.path())?,
        "deny" => return respond_with_error(&posted, &redirect_uri, params.state(), AuthorizationError::DENIED),
        _ => return Err(PageError::InvalidAuthorization("the form has no decision".to_owned())),
    }
    let request = AuthorizationRequest {
        application: application.application.id,
        redirect_uri: redirect_uri.clone(),
        scope,
        challenge,
    };
    let session = posted.session.as_ref().map(|session| session.id);
    let code = posted
        .write(move |hub| -> Result<_, PortError> {
            match hub.grants().authorize(&user, session, &request) {
                Ok(code) => Ok(Ok(code)),
                Err(GrantError::Port(fault)) => Err(fault),
                Err(GrantError::SessionEnded) => Ok(Err(PageError::SignIn)),
                Err(error) => Ok(Err(PageError::InvalidAuthorization(error.to_string()))),
            }
        })
        .await??;
    let to = address(&posted, &redirect_uri, params.state(), &[("code", code.expose())]);
    posted.redirect(&to).map(never_stored)
}
