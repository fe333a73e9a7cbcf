use std::collections::BTreeSet;

use branchyard_domain::access::{Admin, DatabaseAccess};
use branchyard_domain::entities::{DeliveryDetails, HookEvent};
use branchyard_domain::errors::HookError;
use branchyard_domain::usecases::{EditHook, HookView, NewHook, SecretHook};
use branchyard_domain::values::HookId;
use branchyard_http_common::{
    ApiResponse, Endpoint, Fields, HandlerError, NO_FIELDS, RequestBody, RequestContext, SecretsShown, Words, bound,
    etag_of, page, section,
};

use super::{HandlerResult, page_of, unchanged, urls};
use crate::openapi::examples;
use crate::{convert, wire};
use branchyard_http_common::methods::{delete, get, patch, post};
use branchyard_openapi::{Success, one};
use serde_json::{Value, json};

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section("Hooks", "/databases/{owner}/{database}/hooks", vec![
get("", "listHooks", "Hooks of a database, oldest first", list_hooks).query(&["page_token", "page_size"]).responds(200, Success::List("Hook"), "DLP"),
post("", "createHook", "Register a hook; its secret is shown once", create_hook).json(&CREATE_HOOK).responds(201, Success::One("Hook"), ("DBKP", &[422])).describe("Only this answer contains `secret`, which signs deliveries (Standard Webhooks). A repeat with the \
                 same `Idempotency-Key` omits the secret. Addresses in private networks are refused unless the \
                 operator allows them.").shows(|| one(examples::fresh_hook())),
get("/{hook_id}", "getHook", "A hook", get_hook).responds(200, Success::One("Hook"), "DP"),
patch("/{hook_id}", "updateHook", "Change a hook, switch it off or on", update_hook).json(&UPDATE_HOOK).responds(200, Success::One("Hook"), ("DBPM", &[422])).describe("`active: false` abandons pending deliveries. `active: true` also clears the reason for which the \
                 server switched the hook off.").shows(update_hook_shows),
delete("/{hook_id}", "deleteHook", "Delete a hook and its deliveries", delete_hook).responds(200, Success::One("Hook"), "DPM"),
post("/{hook_id}/ping", "pingHook", "Send a ping to a hook", ping_hook).responds(201, Success::One("Delivery"), "DBKP").describe("Makes one attempt, also if the hook is inactive. The result does not affect the state of the hook.").shows(|| one(examples::pending_delivery())),
post("/{hook_id}/rotate-secret", "rotateHookSecret", "Rotate the secret of a hook; the new one is shown once", rotate_hook_secret).responds(200, Success::One("Hook"), "DBKP").describe("For 24 hours, deliveries carry signatures by both secrets. Rotating again within that time drops the \
                 older secret.").shows(|| one(examples::fresh_hook())),
])
}

fn update_hook_shows() -> Value {
    let mut off = examples::hook();
    off["active"] = false.into();
    one(off)
}

const EVENTS: Words<HookEvent> = Words::component(
    "HookEvent",
    &[("on_push", HookEvent::Push), ("on_pull_request", HookEvent::PullRequest), ("on_branch", HookEvent::Branch)],
);

/// Returns the rules of a webhook's URL, as a JSON schema.
fn address_schema() -> Value {
    let text = "An `https` URL, or an `http` URL if the operator allows its network, parsed by the WHATWG URL standard. It has no user name and no fragment, and is stored in normalized form.";
    // No `format`: the standard admits what RFC 3986 does not, such as `|` in a path.
    json!({"minLength": 1, "maxLength": 2048, "description": text})
}

/// Parses the hook id of a path. A text that is not an id is reported like an unknown hook.
pub(super) fn hook_of(text: &str) -> Result<HookId, HookError> {
    HookId::parse(text).map_err(|_| HookError::NoSuchHook)
}

/// Returns the hook of the path. The hook is looked up only if the caller has the admin role.
pub(super) async fn named(call: &RequestContext) -> Result<(DatabaseAccess<Admin>, HookId), HandlerError> {
    let access = call.access::<Admin>().await?;
    let id = call.segment("hook_id");
    call.read(move |hub| -> Result<_, HookError> {
        let found = hub.hooks().get(&access, hook_of(&id)?)?.hook.id;
        Ok((access, found))
    })
    .await
}

/// Handles `GET …/hooks`.
pub(crate) async fn list_hooks(call: RequestContext) -> HandlerResult {
    let access = call.access::<Admin>().await?;
    let page_request = call.query(|q| page_of(&call, q))?;
    let bound = bound(&["hooks", &access.database().id.to_string()]);
    let after: Option<String> = call.page_key(&page_request, &bound)?;
    let after = after.and_then(|id| HookId::parse(&id).ok());
    let fetch = page_request.fetch();
    let found = call.read(move |hub| hub.hooks().list(&access, after, fetch)).await?;
    let shown = |view: &HookView| wire::Hook::from(view);
    page(&call.state, &page_request, &bound, found, shown, |view| view.hook.id.to_string())
}

/// Handles `POST …/hooks`.
pub(crate) async fn create_hook(call: RequestContext) -> HandlerResult {
    let access = call.access::<Admin>().await?;
    let key = call.key(access.who()).await?;
    let (url, events, active) = call.json(&CREATE_HOOK)?;
    let wanted = NewHook { url: call.hook_address(&access, &url).await?, events, active };
    let (urls, locator) = (urls(&call.state), access.database().locator.clone());
    let created = move |made: &SecretHook, shown: SecretsShown| {
        with_secret(201, made, shown).at(urls.below(&locator, "hooks", &made.view.hook.id.to_string()))
    };
    call.effect_once(key, move |hub, once| hub.hooks().create(&access, wanted, once), created).await
}

/// Renders a hook with a new secret. The response to this request includes the secret, but the response saved under its
/// idempotency key does not. The entity tag is that of the hook without its secret, as later reads return it.
fn with_secret(status: u16, made: &SecretHook, shown: SecretsShown) -> ApiResponse {
    let plain = wire::Hook::from(&made.view);
    let tag = etag_of(&plain);
    let answer = match shown {
        SecretsShown::Now => ApiResponse::data(status, &convert::hook_with_secret(&made.view, &made.secret)),
        SecretsShown::Later => ApiResponse::data(status, &plain),
    };
    answer.tagged(Some(tag)).secret()
}

const CREATE_HOOK: RequestBody<(String, BTreeSet<HookEvent>, bool)> =
    RequestBody::closed("CreateHookRequest", new_hook)
        .example(|| json!({"url": "https://ci.example.test/yard", "events": ["on_push", "on_branch"]}));

fn new_hook(fields: &Fields<'_>) -> Option<(String, BTreeSet<HookEvent>, bool)> {
    let url = fields.schema(address_schema).required_string("url");
    let chosen = fields.doc("Default: `[\"on_push\"]`.").optional_choices("events", &EVENTS);
    let events = if fields.has("events") { chosen } else { Some(BTreeSet::from([HookEvent::Push])) };
    let active = fields.doc("Default: `true`.").optional_bool("active").unwrap_or(true);
    Some((url?, events?, active))
}

/// Handles `GET …/hooks/{hook_id}`.
pub(crate) async fn get_hook(call: RequestContext) -> HandlerResult {
    let access = call.access::<Admin>().await?;
    let id = call.segment("hook_id");
    let view = call.read(move |hub| hub.hooks().get(&access, hook_of(&id)?)).await?;
    Ok(ApiResponse::resource(200, &wire::Hook::from(&view)))
}

/// Handles `PATCH …/hooks/{hook_id}`.
pub(crate) async fn update_hook(call: RequestContext) -> HandlerResult {
    let (access, id) = named(&call).await?;
    let (url, edit) = call.json(&UPDATE_HOOK)?;
    let url = match url {
        Some(url) => Some(call.hook_address(&access, &url).await?),
        None => None,
    };
    let edit = EditHook { url, ..edit };
    let if_match = call.if_match();
    let view = call
        .write(move |hub| {
            let as_seen = |view: &HookView| unchanged(if_match.as_ref(), &wire::Hook::from(view));
            hub.hooks().edit(&access, id, edit, Some(&as_seen))
        })
        .await?;
    Ok(ApiResponse::resource(200, &wire::Hook::from(&view)))
}

const UPDATE_HOOK: RequestBody<(Option<String>, EditHook)> =
    RequestBody::patch("UpdateHookRequest", edit_hook).example(|| json!({"active": false}));

/// Reads the changes. The URL is returned separately, because it still has to be checked against the egress policy.
fn edit_hook(fields: &Fields<'_>) -> Option<(Option<String>, EditHook)> {
    let url = fields.schema(address_schema).optional_string("url");
    let events = fields.optional_choices("events", &EVENTS);
    let active = fields.doc("`true` also clears `disabled_reason`.").optional_bool("active");
    Some((url, EditHook { url: None, events, active }))
}

/// Handles `DELETE …/hooks/{hook_id}`.
pub(crate) async fn delete_hook(call: RequestContext) -> HandlerResult {
    let access = call.access::<Admin>().await?;
    let id = call.segment("hook_id");
    let if_match = call.if_match();
    let view = call
        .write(move |hub| {
            let as_seen = |view: &HookView| unchanged(if_match.as_ref(), &wire::Hook::from(view));
            hub.hooks().delete(&access, hook_of(&id)?, Some(&as_seen))
        })
        .await?;
    Ok(ApiResponse::data(200, &wire::Hook::from(&view)))
}

/// Handles `POST …/hooks/{hook_id}/ping`.
pub(crate) async fn ping_hook(call: RequestContext) -> HandlerResult {
    let (access, id) = named(&call).await?;
    let key = call.key(access.who()).await?;
    call.json(&NO_FIELDS)?;
    let hook = urls(&call.state).below(&access.database().locator, "hooks", &id.to_string());
    let queued = move |details: &DeliveryDetails| {
        let shown = wire::Delivery::from(details);
        let location = format!("{hook}/deliveries/{}", shown.summary.id);
        ApiResponse::resource(201, &shown).at(location)
    };
    call.effect(key, move |hub, once| hub.hooks().ping(&access, id, once), queued).await
}

/// Handles `POST …/hooks/{hook_id}/rotate-secret`.
pub(crate) async fn rotate_hook_secret(call: RequestContext) -> HandlerResult {
    let (access, id) = named(&call).await?;
    let key = call.key(access.who()).await?;
    call.json(&NO_FIELDS)?;
    let rotated = |made: &SecretHook, shown: SecretsShown| with_secret(200, made, shown);
    call.effect_once(key, move |hub, once| hub.hooks().rotate_secret(&access, id, once), rotated).await
}
