use branchyard_deployments::access::{Manage, Observe};
use branchyard_http_common::{Endpoint, RequestBody, RequestContext, section};

use super::{HandlerResult, unsupported, whole};
use crate::wire;
use branchyard_http_common::methods::{get, put};
use branchyard_openapi::Success;
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Settings",
        "/deployments/{owner}/{deployment}/service-windows",
        vec![
            get("", "listServiceWindows", "Service windows, in which healthy instances may be restarted", list_windows)
                .responds(200, Success::List("ServiceWindow"), &[404]),
            put("", "updateServiceWindows", "Set service windows; not offered yet", put_windows)
                .json(&SERVICE_WINDOWS)
                .refuses(&[400, 403, 404, 413, 415, 422]),
        ],
    )
}

/// Handles `GET …/service-windows`. Always returns the default window.
pub(crate) async fn list_windows(call: RequestContext) -> HandlerResult {
    call.deployment::<Observe>().await?;
    Ok(whole(&[wire::ServiceWindow {
        id: "00000000-0000-0000-0000-000000000000",
        day_of_week: "sunday",
        start_hour_utc: 7,
        end_hour_utc: 8,
        is_default: true,
    }]))
}

/// The body of the published API. The server does not support custom service windows, so the body is only described in the
/// OpenAPI document and never parsed.
const SERVICE_WINDOWS: RequestBody<()> = RequestBody::closed("UpdateServiceWindowsRequest", |fields| {
    fields.describe_object(|| json!({"description": "Service windows that replace the default one."}));
    fields.component("ServiceWindowRequest").schema(|| json!({"maxItems": 7})).required_objects("windows", |window| {
        window.describe_object(|| json!({"description": "A weekly period."}));
        window.required_string("day_of_week");
        window.schema(|| json!({"format": "int32"})).required_int("start_hour_utc", &(0..=22));
        window.schema(|| json!({"format": "int32"})).required_int("end_hour_utc", &(1..=23));
        Some(())
    });
    Some(())
})
.example(|| json!({"windows": [{"day_of_week": "sunday", "start_hour_utc": 3, "end_hour_utc": 5}]}));

/// Handles `PUT …/service-windows`.
pub(crate) async fn put_windows(call: RequestContext) -> HandlerResult {
    call.deployment::<Manage>().await?;
    Err(unsupported("own service windows"))
}
