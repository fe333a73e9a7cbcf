use std::ops::RangeInclusive;

use branchyard_domain::access::Admin;
use branchyard_domain::entities::Mirror;
use branchyard_domain::usecases::{EditMirror, NewMirror};
use branchyard_http_common::{ApiResponse, Endpoint, Fields, NO_FIELDS, RequestBody, RequestContext, section};

use super::{HandlerResult, accepted, urls};
use crate::{waiting, wire};
use branchyard_http_common::methods::{delete, get, patch, post};
use branchyard_openapi::Success;
use serde_json::{Value, json};

/// The longest address of a source, in bytes.
const LONGEST_URL: usize = 2_048;
/// The range of the seconds between two syncs.
const INTERVALS: RangeInclusive<u64> = 0..=2_592_000;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Mirror",
        "/databases/{owner}/{database}/mirror",
        vec![
            get("", "getMirror", "How the database follows its source", get_mirror)
                .responds(200, Success::One("Mirror"), "DP")
                .describe("404 if the database is no mirror."),
            patch("", "updateMirror", "Change the source or the interval of a mirror", update_mirror)
                .json(&UPDATE_MIRROR)
                .responds(200, Success::One("Mirror"), ("DBP", &[422]))
                .describe("Later syncs are made with the rights of the caller. The next one begins soon."),
            delete("", "deleteMirror", "Make a mirror an ordinary database", delete_mirror)
                .responds(200, Success::One("Mirror"), "DP")
                .describe("The database keeps what it has. Its source is not read any more, and its key is gone."),
            post("/sync", "syncMirror", "Read the source of a mirror now", sync_mirror)
                .responds(202, Success::One("OperationRef"), ("DKP", &[]))
                .describe("Runs as an operation. If one waits or runs already, it is the answer."),
        ],
    )
}

/// Handles `GET …/mirror`.
pub(crate) async fn get_mirror(call: RequestContext) -> HandlerResult {
    let access = call.access::<Admin>().await?;
    let mirror = call.read(move |hub| hub.mirrors().get(&access)).await?;
    Ok(ApiResponse::resource(200, &wire::Mirror::from(&mirror)))
}

/// Handles `PATCH …/mirror`.
pub(crate) async fn update_mirror(call: RequestContext) -> HandlerResult {
    let access = call.access::<Admin>().await?;
    let edit = call.json(&UPDATE_MIRROR)?;
    let mirror = call.write(move |hub| hub.mirrors().edit(&access, edit)).await?;
    Ok(ApiResponse::resource(200, &wire::Mirror::from(&mirror)))
}

const UPDATE_MIRROR: RequestBody<EditMirror> =
    RequestBody::patch("UpdateMirrorRequest", edit_mirror).example(|| json!({"interval_seconds": 600}));

fn edit_mirror(fields: &Fields<'_>) -> Option<EditMirror> {
    let url = fields.schema(address_schema).optional_as("url", address);
    let interval_seconds = interval(fields);
    Some(EditMirror { url, interval_seconds })
}

/// Reads what a new database is to follow.
pub(super) fn new_mirror(fields: &Fields<'_>) -> Option<NewMirror> {
    fields.describe_object(|| {
        json!({"description": "The database of another server that this one is to follow. Nothing else writes to it then."})
    });
    let url = fields.schema(address_schema).required_as("url", address);
    let interval_seconds = interval(fields);
    Some(NewMirror { url: url?, interval_seconds: interval_seconds.unwrap_or(Mirror::DEFAULT_INTERVAL_SECONDS) })
}

/// Reads the seconds between two syncs.
fn interval(fields: &Fields<'_>) -> Option<i64> {
    let text =
        "Seconds between two syncs: 0 for one sync only, after which the database is an ordinary one, or at least 60.";
    let seconds = fields.doc(text).optional_int("interval_seconds", &INTERVALS)?;
    if (1..60).contains(&seconds) {
        fields.fault("interval_seconds", "must be 0 or 60 to 2592000");
        return None;
    }
    i64::try_from(seconds).ok()
}

fn address(text: &str) -> Result<String, &'static str> {
    if text.len() <= LONGEST_URL { Ok(text.to_owned()) } else { Err("must have at most 2048 bytes") }
}

fn address_schema() -> Value {
    json!({"maxLength": LONGEST_URL, "description": "The address of a database, as its clients use it. `http` where the server allows it."})
}

/// Handles `DELETE …/mirror`.
pub(crate) async fn delete_mirror(call: RequestContext) -> HandlerResult {
    let access = call.access::<Admin>().await?;
    let mirror = call.write(move |hub| hub.mirrors().stop(&access)).await?;
    Ok(ApiResponse::data(200, &wire::Mirror::from(&mirror)))
}

/// Handles `POST …/mirror/sync`.
pub(crate) async fn sync_mirror(call: RequestContext) -> HandlerResult {
    let queued = queue_sync(&call).await;
    waiting::completed(call, queued).await
}

async fn queue_sync(call: &RequestContext) -> HandlerResult {
    let access = call.access::<Admin>().await?;
    let key = call.key(access.who()).await?;
    call.json(&NO_FIELDS)?;
    let urls = urls(&call.state);
    let act = move |hub: &branchyard_http_common::Services,
                    once: Option<&branchyard_domain::usecases::IdempotencyRecord<'_, _>>| {
        hub.mirrors().sync(&access, once)
    };
    call.effect_always(key, act, move |operation| accepted(operation, &urls)).await
}
