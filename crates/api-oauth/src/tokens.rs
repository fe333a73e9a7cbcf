//! `POST /api/oauth/access_token` and `POST /api/oauth/device_authorization`.

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse, web};
use branchyard_auth::{CodeVerifier, PlainSecret, RefreshToken};
use branchyard_domain::errors::{ApplicationError, GrantError};
use branchyard_domain::usecases::IssuedTokens;
use branchyard_domain::values::{ApplicationId, Scope};
use branchyard_http_common::{RequestContext, Services};
use serde_json::json;

use crate::form::Form;
use crate::oauth_error::OAuthError;
use crate::{Counters, not_stored};

type Answer = Result<HttpResponse, OAuthError>;

/// Begins to serve a request of a client.
///
/// # Errors
/// `invalid_client` if the client tries to authenticate.
pub(crate) async fn begin(request: &HttpRequest) -> Result<RequestContext, OAuthError> {
    if request.headers().contains_key(header::AUTHORIZATION) {
        return Err(OAuthError::no_authentication());
    }
    Ok(RequestContext::without_body(request).await?)
}

/// Runs a use case. An attempt with a wrong code or token counts against the client's address and the application.
///
/// # Errors
/// The errors of the use case; `slow_down` with 429 after too many failed attempts.
pub(crate) async fn run<T: Send + 'static>(
    call: &RequestContext,
    request: &HttpRequest,
    counters: &Counters,
    application: &ApplicationId,
    work: impl FnOnce(&Services) -> Result<T, GrantError> + Send + 'static,
) -> Result<T, OAuthError> {
    let of = application.clone();
    let done = call
        .write_session(move |services| {
            let done = check_application(services, &of).and_then(|()| work(services));
            match done {
                Ok(value) => Ok(Ok(value)),
                Err(error) => OAuthError::of(error).map(Err),
            }
        })
        .await?;
    done.map_err(|error| count_failure(call, request, counters, (application, error)))
}

/// Checks that a client is registered, which comes before all that it sends (RFC 6749 §5.2).
fn check_application(services: &Services, application: &ApplicationId) -> Result<(), GrantError> {
    match services.applications().find(application) {
        Ok(_) => Ok(()),
        Err(ApplicationError::Port(fault)) => Err(fault.into()),
        Err(_) => Err(GrantError::UnknownApplication),
    }
}

/// Counts an attempt that failed, and returns the error to answer.
fn count_failure(
    call: &RequestContext,
    request: &HttpRequest,
    counters: &Counters,
    (application, error): (&ApplicationId, OAuthError),
) -> OAuthError {
    if !error.is_failed_attempt() {
        return error;
    }
    let address = call.state.client_address(request);
    match counters.failures.count(address, application, call.state.services.now()) {
        Some(seconds) => OAuthError::too_fast("too many codes or tokens were rejected; try again later", seconds),
        None => error,
    }
}

/// `POST /api/oauth/access_token`
pub(crate) async fn issue(request: HttpRequest, payload: web::Payload, counters: web::Data<Counters>) -> Answer {
    let call = begin(&request).await?;
    let form = Form::read(&call, &request, payload.into_inner()).await?;
    let grant_type = form.required("grant_type")?;
    let application = form.client_id()?;
    let of = application.clone();
    let issued = match grant_type {
        "authorization_code" => {
            let code = PlainSecret::parse(form.required("code")?);
            let redirect_uri = form.required("redirect_uri")?.to_owned();
            let verifier = CodeVerifier::parse(form.required("code_verifier")?);
            let redeem = move |services: &Services| {
                let (Ok(code), Ok(verifier)) = (code, verifier) else { return Err(GrantError::Invalid) };
                services.grants().redeem(&of, &code.hash(), &redirect_uri, &verifier)
            };
            run(&call, &request, &counters, &application, redeem).await?
        }
        "refresh_token" => {
            let scope = requested_scope(&form)?;
            let token = RefreshToken::parse(form.required("refresh_token")?);
            let keys = call.state.keys.clone();
            let refresh = move |services: &Services| {
                let Ok(token) = token else { return Err(GrantError::Invalid) };
                services.grants().refresh(&of, &token, keys.refresh_successor(&token), scope)
            };
            run(&call, &request, &counters, &application, refresh).await?
        }
        "urn:ietf:params:oauth:grant-type:device_code" => {
            let code = PlainSecret::parse(form.required("device_code")?);
            let poll = move |services: &Services| {
                let Ok(code) = code else { return Err(GrantError::Invalid) };
                services.devices().poll(&of, &code.hash())
            };
            run(&call, &request, &counters, &application, poll).await?
        }
        _ => {
            let description = "the grant types are authorization_code, refresh_token and \
                               urn:ietf:params:oauth:grant-type:device_code";
            return Err(OAuthError::new("unsupported_grant_type", description));
        }
    };
    Ok(show(&issued))
}

fn show(issued: &IssuedTokens) -> HttpResponse {
    not_stored().json(json!({
        "access_token": issued.access.expose(),
        "token_type": "Bearer",
        "expires_in": issued.expires_in,
        "refresh_token": issued.refresh.expose(),
        "scope": issued.scope.as_str(),
    }))
}

fn requested_scope(form: &Form) -> Result<Option<Scope>, OAuthError> {
    let parse = |names| Scope::parse_list(names).map_err(|error| OAuthError::new("invalid_scope", error.to_string()));
    form.optional("scope")?.map(parse).transpose()
}

/// `POST /api/oauth/device_authorization`
pub(crate) async fn begin_device(request: HttpRequest, payload: web::Payload, counters: web::Data<Counters>) -> Answer {
    let call = begin(&request).await?;
    let form = Form::read(&call, &request, payload.into_inner()).await?;
    let application = form.client_id()?;
    let scope = requested_scope(&form)?.unwrap_or(Scope::Read);
    let (address, now) = (call.state.client_address(&request), call.state.services.now());
    call.check_writable()?;
    // Before the device is added, so that requests at once count, too.
    if let Some(seconds) = counters.devices.count(address, now) {
        return Err(OAuthError::too_fast("too many devices of this address wait; try again later", seconds));
    }
    let of = application.clone();
    let begin = move |services: &Services| services.devices().begin(&of, scope);
    let device = run(&call, &request, &counters, &application, begin).await?;
    let page = format!("{}/oauth/device", call.state.config.public_url);
    let user_code = device.user_code.to_string();
    Ok(not_stored().json(json!({
        "device_code": device.device_code.expose(),
        "user_code": user_code,
        "verification_uri": page,
        "verification_uri_complete": format!("{page}?user_code={user_code}"),
        "expires_in": device.expires_in,
        "interval": device.interval_seconds,
    })))
}
