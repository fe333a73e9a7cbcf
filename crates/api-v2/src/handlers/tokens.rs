use branchyard_domain::entities::Token;
use branchyard_domain::errors::TokenError;
use branchyard_domain::usecases::MintedToken;
use branchyard_domain::values::{Timestamp, TokenExpiry, TokenId, TokenName};
use branchyard_http_common::{
    ApiResponse, Endpoint, Fields, RequestBody, RequestContext, SecretsShown, Words, bound, page, section,
};

use super::{HandlerResult, page_of};
use crate::convert;
use crate::openapi::examples;
use branchyard_http_common::methods::{delete, get, post};
use branchyard_openapi::{Success, one};
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "User",
        "/user/tokens",
        vec![
            get("", "listUserTokens", "Tokens of the caller, newest first", list_user_tokens)
                .query(&["page_token", "page_size"])
                .responds(200, Success::List("Token"), "L"),
            post("", "createUserToken", "Create a token; it is shown once", create_user_token)
                .json(&CREATE_USER_TOKEN)
                .responds(201, Success::One("Token"), ("BK", &[422]))
                .describe("Only this answer contains `token`. A repeat with the same `Idempotency-Key` omits it.")
                .shows(|| one(examples::new_token())),
            delete("/{token_id}", "deleteUserToken", "Delete a token, which stops working at once", delete_user_token)
                .responds(200, Success::One("Token"), &[404])
                .describe("A token may delete itself."),
        ],
    )
}

/// Handles `GET /user/tokens`.
pub(crate) async fn list_user_tokens(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let page_request = call.query(|q| page_of(&call, q))?;
    let bound = bound(&["tokens", &user.id.to_string()]);
    let after: Option<String> = call.page_key(&page_request, &bound)?;
    let after = after.and_then(|id| TokenId::parse(&id).ok());
    let (now, fetch) = (call.state.services.now(), page_request.fetch());
    let found = call.read(move |hub| hub.tokens().list(&user, after, fetch)).await?;
    let shown = |token: &Token| convert::token(token, now);
    page(&call.state, &page_request, &bound, found, shown, |token| token.id.to_string())
}

/// Handles `POST /user/tokens`.
pub(crate) async fn create_user_token(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let key = call.key(&user).await?;
    let (name, expiry) = call.json(&CREATE_USER_TOKEN)?;
    let act = move |hub: &branchyard_http_common::Services,
                    once: Option<&branchyard_domain::usecases::IdempotencyRecord<'_, _>>| {
        let tokens = hub.tokens();
        tokens.create(&user, name.as_str(), expiry, tokens.mint(), once)
    };
    call.effect_once(key, act, created).await
}

/// Renders a new token. The response to this request includes the secret, but the response saved under its idempotency key does
/// not.
fn created(minted: &MintedToken, shown: SecretsShown) -> ApiResponse {
    let MintedToken { token, secret } = minted;
    let mut data = convert::token(token, token.created_at);
    if shown == SecretsShown::Now {
        data.token = Some(secret.expose().to_owned());
    }
    ApiResponse::data(201, &data).secret()
}

const LIFETIMES: Words<TokenExpiry> = Words::component(
    "TokenLifetime",
    &[
        (TokenExpiry::Days30.as_str(), TokenExpiry::Days30),
        (TokenExpiry::Days60.as_str(), TokenExpiry::Days60),
        (TokenExpiry::Days90.as_str(), TokenExpiry::Days90),
        (TokenExpiry::Year1.as_str(), TokenExpiry::Year1),
    ],
)
.doc("The lifetime of a token. `1y` is 365 days.");

const CREATE_USER_TOKEN: RequestBody<(TokenName, TokenExpiry)> =
    RequestBody::closed("CreateUserTokenRequest", new_token).example(|| json!({"name": "ci", "expires_in": "90d"}));

fn new_token(fields: &Fields<'_>) -> Option<(TokenName, TokenExpiry)> {
    let name = fields.required::<TokenName>("name");
    let expiry = fields.required_choice("expires_in", &LIFETIMES);
    Some((name?, expiry?))
}

/// Handles `DELETE /user/tokens/{token_id}`.
pub(crate) async fn delete_user_token(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let (id, now): (_, Timestamp) = (call.segment("token_id"), call.state.services.now());
    let token = call
        .write(move |hub| {
            let id = TokenId::parse(&id).map_err(|_| TokenError::NoSuchToken)?;
            hub.tokens().delete(&user, id)
        })
        .await?;
    Ok(ApiResponse::data(200, &convert::token(&token, now)))
}
