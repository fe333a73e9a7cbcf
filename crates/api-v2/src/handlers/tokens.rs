use branchyard_domain::entities::Token;
use branchyard_domain::errors::TokenError;
use branchyard_domain::usecases::MintedToken;
use branchyard_domain::values::{Timestamp, TokenExpiry, TokenId, TokenName};
use branchyard_http_common::{ApiResponse, Fields, RequestContext, SecretsShown, bound, page};

use super::{HandlerResult, page_of};
use crate::convert;

/// `GET /user/tokens`
pub(crate) async fn list_user_tokens(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let page_request = call.query(|q| page_of(&call, q))?;
    let bound = bound(&["tokens", &user.id.to_string()]);
    let after: Option<String> = call.page_key(&page_request, &bound)?;
    let after = after.and_then(|id| TokenId::parse(&id).ok());
    let (now, fetch) = (call.state.hub.now(), page_request.fetch());
    let found = call.read(move |hub| hub.tokens().list(&user, after, fetch)).await?;
    let shown = |token: &Token| convert::token(token, now);
    page(&call.state, &page_request, &bound, found, shown, |token| token.id.to_string())
}

/// `POST /user/tokens`
pub(crate) async fn create_user_token(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let key = call.key(&user).await?;
    let (name, expiry) = call.body(new_token)?;
    let act = move |hub: &branchyard_http_common::Services,
                    once: Option<&branchyard_domain::usecases::IdempotencyRecord<'_, _>>| {
        let tokens = hub.tokens();
        tokens.create(&user, name.as_str(), expiry, tokens.mint(), once)
    };
    call.effect_once(key, act, created).await
}

/// The secret is shown to the request that made it; what is saved for its repetitions does not hold it.
fn created(minted: &MintedToken, shown: SecretsShown) -> ApiResponse {
    let MintedToken { token, secret } = minted;
    let mut data = convert::token(token, token.created_at);
    if shown == SecretsShown::Now {
        data.token = Some(secret.expose().to_owned());
    }
    ApiResponse::data(201, &data).secret()
}

fn new_token(fields: &Fields<'_>) -> Option<(TokenName, TokenExpiry)> {
    let name = fields.required_as("name", |text| TokenName::parse(text));
    let expiry = fields.required_as("expires_in", TokenExpiry::parse);
    Some((name?, expiry?))
}

/// `DELETE /user/tokens/{token_id}`
pub(crate) async fn delete_user_token(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let (id, now): (_, Timestamp) = (call.segment("token_id"), call.state.hub.now());
    let token = call
        .write(move |hub| {
            let id = TokenId::parse(&id).map_err(|_| TokenError::NoSuchToken)?;
            hub.tokens().delete(&user, id)
        })
        .await?;
    Ok(ApiResponse::data(200, &convert::token(&token, now)))
}
