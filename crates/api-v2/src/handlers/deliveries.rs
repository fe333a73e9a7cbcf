use branchyard_domain::access::Admin;
use branchyard_domain::entities::{Delivery, DeliveryDetails};
use branchyard_domain::errors::HookError;
use branchyard_domain::ports::DeliveryState;
use branchyard_domain::values::DeliveryId;
use branchyard_http_common::{ApiResponse, Endpoint, NO_FIELDS, RequestContext, bound, page, section};

use super::hooks::{hook_of, named};
use super::{HandlerResult, page_of};
use crate::openapi::examples;
use crate::wire;
use branchyard_http_common::methods::{get, post};
use branchyard_openapi::{Success, one};

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section("Hooks", "/databases/{owner}/{database}/hooks/{hook_id}/deliveries", vec![
get("", "listHookDeliveries", "Deliveries to a hook, newest first", list_hook_deliveries).query(&["delivery_status", "page_token", "page_size"]).responds(200, Success::List("DeliverySummary"), "DLP"),
get("/{delivery_id}", "getHookDelivery", "A delivery with its attempts", get_hook_delivery).responds(200, Success::One("Delivery"), "DP").describe("Finished deliveries are kept for 30 days."),
post("/{delivery_id}/redeliver", "redeliver", "Send a delivery again", redeliver).responds(200, Success::One("Delivery"), "DBKP").describe("Starts a new run of attempts with the same id and body, also if the hook is inactive. 409 while the \
                 delivery is `pending`.").shows(|| one(examples::pending_delivery())),
])
}

const STATES: &[(&str, DeliveryState)] =
    &[("pending", DeliveryState::Pending), ("delivered", DeliveryState::Delivered), ("failed", DeliveryState::Failed)];

/// Parses the delivery id of a path. A text that is not an id is reported like an unknown delivery.
fn delivery_of(text: &str) -> Result<DeliveryId, HookError> {
    DeliveryId::parse(text).map_err(|_| HookError::NoSuchDelivery)
}

/// Handles `GET …/hooks/{hook_id}/deliveries`.
pub(crate) async fn list_hook_deliveries(call: RequestContext) -> HandlerResult {
    let (access, hook) = named(&call).await?;
    let (page_request, state, status) = call.query(|q| {
        let status = q.optional("status").unwrap_or_default().to_owned();
        Some((page_of(&call, q)?, q.choice("status", STATES), status))
    })?;
    let bound = bound(&["deliveries", &hook.to_string(), &status]);
    let before: Option<String> = call.page_key(&page_request, &bound)?;
    let before = before.and_then(|id| DeliveryId::parse(&id).ok());
    let fetch = page_request.fetch();
    let found = call.read(move |hub| hub.deliveries().list(&access, hook, state, before, fetch)).await?;
    let shown = |delivery: &Delivery| wire::DeliverySummary::from(delivery);
    page(&call.state, &page_request, &bound, found, shown, |delivery| delivery.id.to_string())
}

/// Handles `GET …/hooks/{hook_id}/deliveries/{delivery_id}`.
pub(crate) async fn get_hook_delivery(call: RequestContext) -> HandlerResult {
    let access = call.access::<Admin>().await?;
    let (hook, id) = (call.segment("hook_id"), call.segment("delivery_id"));
    let details = call.read(move |hub| hub.deliveries().get(&access, hook_of(&hook)?, delivery_of(&id)?)).await?;
    Ok(ApiResponse::resource(200, &wire::Delivery::from(&details)))
}

/// Handles `POST …/hooks/{hook_id}/deliveries/{delivery_id}/redeliver`.
pub(crate) async fn redeliver(call: RequestContext) -> HandlerResult {
    let access = call.access::<Admin>().await?;
    let (hook, id) = (call.segment("hook_id"), call.segment("delivery_id"));
    let (access, found) = call
        .read(move |hub| -> Result<_, HookError> {
            let found = hub.deliveries().get(&access, hook_of(&hook)?, delivery_of(&id)?)?.delivery;
            Ok((access, found))
        })
        .await?;
    let key = call.key(access.who()).await?;
    call.json(&NO_FIELDS)?;
    let queued = |details: &DeliveryDetails| ApiResponse::resource(200, &wire::Delivery::from(details));
    call.effect(key, move |hub, once| hub.deliveries().redeliver(&access, found.hook_id, found.id, once), queued).await
}
