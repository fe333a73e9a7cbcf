use branchyard_domain::entities::UserKey;
use branchyard_domain::errors::KeyError;
use branchyard_domain::values::{PublicKey, TokenName, UserKeyId};
use branchyard_http_common::{ApiResponse, Endpoint, Fields, RequestBody, RequestContext, bound, page, section};

use super::{HandlerResult, page_of};
use crate::wire;
use branchyard_http_common::methods::{delete, get, post};
use branchyard_openapi::Success;
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "User",
        "/user/keys",
        vec![
            get("", "listUserKeys", "Keys of the caller's DoltLite clients, newest first", list_user_keys)
                .query(&["page_token", "page_size"])
                .responds(200, Success::List("UserKey"), "L"),
            post("", "createUserKey", "Add a key of a DoltLite client", create_user_key)
                .json(&CREATE_USER_KEY)
                .responds(201, Success::One("UserKey"), ("BK", &[409, 422]))
                .describe("The client keeps the private half. A key belongs to one user."),
            delete("/{key_id}", "deleteUserKey", "Remove a key, which stops working at once", delete_user_key)
                .responds(200, Success::One("UserKey"), &[404]),
        ],
    )
}

/// Handles `GET /user/keys`.
pub(crate) async fn list_user_keys(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let page_request = call.query(|q| page_of(&call, q))?;
    let bound = bound(&["keys", &user.id.to_string()]);
    let after: Option<String> = call.page_key(&page_request, &bound)?;
    let after = after.and_then(|id| UserKeyId::parse(&id).ok());
    let fetch = page_request.fetch();
    let found = call.read(move |hub| hub.keys().list(&user, after, fetch)).await?;
    page(&call.state, &page_request, &bound, found, |key: &UserKey| wire::UserKey::from(key), |key| key.id.to_string())
}

/// Handles `POST /user/keys`.
pub(crate) async fn create_user_key(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let key = call.key(&user).await?;
    let (public_key, name) = call.json(&CREATE_USER_KEY)?;
    let act = move |hub: &branchyard_http_common::Services,
                    once: Option<&branchyard_domain::usecases::IdempotencyRecord<'_, _>>| {
        hub.keys().add(&user, name.as_str(), public_key, once)
    };
    call.effect(key, act, |key: &UserKey| ApiResponse::data(201, &wire::UserKey::from(key))).await
}

const CREATE_USER_KEY: RequestBody<(PublicKey, TokenName)> = RequestBody::closed("CreateUserKeyRequest", new_key)
    .example(|| json!({"public_key": "0eggffvjpo8bs7bgrkceeiu0j5ju9lhgjeigqnotri3684il66s0", "name": "laptop"}));

fn new_key(fields: &Fields<'_>) -> Option<(PublicKey, TokenName)> {
    let public_key = fields.required::<PublicKey>("public_key");
    let name = fields.required::<TokenName>("name");
    Some((public_key?, name?))
}

/// Handles `DELETE /user/keys/{key_id}`.
pub(crate) async fn delete_user_key(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let id = call.segment("key_id");
    let key = call
        .write(move |hub| {
            let id = UserKeyId::parse(&id).map_err(|_| KeyError::NoSuchKey)?;
            hub.keys().remove(&user, id)
        })
        .await?;
    Ok(ApiResponse::data(200, &wire::UserKey::from(&key)))
}
