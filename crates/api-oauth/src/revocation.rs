//! `POST /api/oauth/revoke` (RFC 7009)

use actix_web::{HttpRequest, HttpResponse, web};
use branchyard_auth::{AccessToken, PlainToken, RefreshToken};
use branchyard_domain::usecases::RevokedToken;
use branchyard_http_common::Services;

use crate::form::Form;
use crate::oauth_error::OAuthError;
use crate::tokens::{begin, run};
use crate::{Counters, not_stored};

/// Answers 200 also for tokens that are unknown or have ended (RFC 7009 §2.2), and for texts that are no tokens.
pub(crate) async fn revoke(
    request: HttpRequest,
    payload: web::Payload,
    counters: web::Data<Counters>,
) -> Result<HttpResponse, OAuthError> {
    let call = begin(&request).await?;
    let form = Form::read(&call, &request, payload.into_inner()).await?;
    let (application, token) = (form.client_id()?, form.required("token")?);
    // The form of a token shows its kind, so `token_type_hint` is not needed.
    let token = match (AccessToken::parse(token), RefreshToken::parse(token)) {
        (Ok(token), _) => RevokedToken::Access(token),
        (_, Ok(token)) => RevokedToken::Refresh(token),
        _ if PlainToken::parse(token).is_ok() => {
            let description = "an API token is deleted in the settings of its user, or with the API";
            return Err(OAuthError::new("unsupported_token_type", description));
        }
        _ => return Ok(not_stored().finish()),
    };
    let of = application.clone();
    let revoke = move |services: &Services| services.grants().revoke(&of, &token);
    run(&call, &request, &counters, &application, revoke).await?;
    Ok(not_stored().finish())
}
